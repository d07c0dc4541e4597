"""The calls that make optimizers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.calls import calls_at, torch_optimizer
from skyline.source.program import Module
from skyline.trace.facts import OptimizerFact

Accept = Callable[[OptimizerFact], bool]


def optimizer_calls(
    context: RewriteContext, classes: tuple[str, ...] = (), accept: Accept | None = None
) -> tuple[tuple[Module, ast.Call], ...]:
    """The calls that made the optimizers which stepped, of these classes of torch.optim (empty: of any).

    ``accept`` picks among the optimizers that the run told of; without a run the only such call is meant. Raises
    RewriteRefused where one of them is not made by a call that can be read.
    """
    told = context.profile.optimizers
    facts = [
        fact for fact in told if (not classes or fact.name in classes) and (accept is None or accept(fact))
    ]
    if not told:
        return (_only(context, classes),)
    found: dict[tuple[str, int, int], tuple[Module, ast.Call]] = {}
    for fact in facts:
        if fact.created_line is None:
            module, call = _only(context, (fact.name,))
        else:
            module, line = context.place(fact.created_line)
            calls = calls_at(
                module, line, lambda callee, module=module: bool(torch_optimizer(module, callee))
            )
            calls = [each for each in calls if torch_optimizer(module, each.func) == fact.name]
            if len(calls) != 1:
                what = "does not construct" if not calls else "constructs more than one"
                message = f"Line {line} {what} torch.optim.{fact.name} by name"
                raise RewriteRefused(message, file=module.path, line=line)
            call = calls[0]
        found[module.path, call.lineno, call.col_offset] = (module, call)
    return tuple(found.values())


def _only(context: RewriteContext, classes: tuple[str, ...]) -> tuple[Module, ast.Call]:
    calls = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if (name := torch_optimizer(module, call.func)) and (not classes or name in classes)
    ]
    if len(calls) != 1:
        if len(classes) == 1:
            wanted = f"torch.optim.{classes[0]}"
        else:
            wanted = (
                f"one of torch.optim's {', '.join(classes)}" if classes else "an optimizer of torch.optim"
            )
        count = "No call constructs" if not calls else "More than one call constructs"
        raise RewriteRefused(f"{count} {wanted} by name", file=context.profile.script)
    return calls[0]
