"""What a model's ``forward`` gives back, where the model's class is in the program."""

from __future__ import annotations

import ast

from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.iteration import ROUTE
from skyline.source.origin import Frame, Instance
from skyline.source.program import Module
from skyline.source.syntax import Function


def returned_by_model(
    context: RewriteContext, frame: Frame, call: ast.Call, place: int | None
) -> tuple[Module, tuple[ast.expr, ...]] | None:
    """All that one result of a model may be: the file of its class, and the expressions there.

    ``place`` is which of several results, None where there is one. None where the class, or what a variable holds, is
    not known for certain.
    """
    models = [
        found for found in context.resolver.meant(call.func, frame, ROUTE) if isinstance(found, Instance)
    ]
    if len({id(found.of.node) for found in models}) != 1:
        return None
    module = models[0].of.module
    forwards = [
        each for each in models[0].of.node.body if isinstance(each, Function) and each.name == "forward"
    ]
    if len(forwards) != 1:
        return None
    values: list[ast.expr] = []
    for node in _own_nodes(forwards[0]):
        if isinstance(node, ast.Return):
            value = _result(node.value, place)
            held = None if value is None else _held(forwards[0], value)
            if held is None:
                return None
            values += held
    return (module, tuple(values)) if values else None


def _result(value: ast.expr | None, place: int | None) -> ast.expr | None:
    if place is None:
        return value
    if isinstance(value, ast.Tuple) and place < len(value.elts):
        return value.elts[place]
    return None


def _held(function: Function, value: ast.expr) -> list[ast.expr] | None:
    """What an expression may be: itself, or all that its name is given in the function."""
    if not isinstance(value, ast.Name):
        return [value]
    found: list[ast.expr] = []
    bound = 0
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and node.id == value.id and isinstance(node.ctx, ast.Store):
            bound += 1
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == value.id for target in node.targets
        ):
            found.append(node.value)
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    given = any(each.arg == value.id for each in arguments)
    return found if found and len(found) == bound and not given else None


def _own_nodes(function: Function) -> list[ast.AST]:
    """The nodes of a function that are not those of functions within it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found
