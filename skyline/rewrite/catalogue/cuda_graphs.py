"""Launches the passes over the model as CUDA graphs: ``mode="reduce-overhead"`` of PyTorch's compiler.

``torch.cuda.make_graphed_callables`` needs no compilation, but it needs sample inputs, takes only one shape
and computes on stale inputs if a shape differs. The compiler's mode records each shape again, and leaves out
operations that cannot be part of a graph.
"""

from __future__ import annotations

from skyline.rewrite.compiling import compiled, compiled_mode, without_compiling
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.sites.start import calls_of
from skyline.source.text import TextEdit, text_of

NAME = "cuda_graphs"
ORDER = 85
_BY_HAND = ("torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables", "torch.cuda.graph")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Compiles the model in that mode; a model that is compiled already gets the mode."""
    check_switched_on(NAME, value)
    for module, node in calls_of(context, *_BY_HAND):
        raise refusal("The script records CUDA graphs by itself", module, node)
    return compiled(context, "reduce-overhead")


def present(context: RewriteContext) -> str | None:
    """``on`` if the model is compiled in that mode, or the script records graphs by itself."""
    return "on" if calls_of(context, *_BY_HAND) or compiled_mode(context) == "reduce-overhead" else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the compilation that creates the graphs."""
    for module, node in calls_of(context, *_BY_HAND):
        message = f"The script records CUDA graphs by itself, with `{text_of(node.func)}`"
        raise refusal(message, module, node, hint="Remove it there.")
    return without_compiling(context)
