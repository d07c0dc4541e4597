"""The calls that make layers of torch.nn."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.arguments import calls_at, qualified_name
from skyline.source.program import Module
from skyline.trace.facts import ModuleFact


def layer_class(module: Module, callee: ast.expr) -> str:
    """The name of the torch.nn class that a callee is, such as ``Linear``; empty for anything else."""
    package, _, last = qualified_name(module, callee).rpartition(".")
    in_torch = package == "torch.nn" or package.startswith("torch.nn.modules")
    return last if in_torch and last[:1].isupper() else ""


def layer_calls(
    context: RewriteContext, layers: Iterable[ModuleFact]
) -> tuple[tuple[Module, ast.Call, ModuleFact], ...]:
    """The calls that made these layers, each once with one of its layers.

    Raises RewriteRefused if one of the layers was made in a way that cannot be read.
    """
    found: dict[tuple[str, int, int], tuple[Module, ast.Call, ModuleFact]] = {}
    for layer in layers:
        module, call = _made_by(context, layer)
        found.setdefault((module.path, call.lineno, call.col_offset), (module, call, layer))
    return tuple(found.values())


def _made_by(context: RewriteContext, layer: ModuleFact) -> tuple[Module, ast.Call]:
    name = layer.class_name
    if layer.created_line is None:
        calls = [
            (module, call)
            for module, call in context.program.nodes_of(ast.Call)
            if layer_class(module, call.func) == name
        ]
        if len(calls) != 1:
            count = "No call" if not calls else "More than one call"
            message = f"{count} of the program makes a torch.nn.{name}: the one that makes `{layer.path}` is not known"
            raise RewriteRefused(message, file=context.profile.script)
        return calls[0]
    module, line = context.place(layer.created_line)
    at_line = calls_at(module, line, lambda callee: layer_class(module, callee) == name)
    if len(at_line) != 1:
        what = "does not construct" if not at_line else "constructs more than one"
        message = f"Line {line} {what} torch.nn.{name} by name"
        raise RewriteRefused(message, file=module.path, line=line)
    return module, at_line[0]
