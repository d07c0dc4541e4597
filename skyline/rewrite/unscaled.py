"""A training loop without its gradient scaler: plain backward pass, plain step."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import replace
from skyline.rewrite.unwrapping import without_call, without_statements
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import dotted, offsets_of, text_of

_MAKERS = ("GradScaler",)
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def unscaled(module: Module, scaler: str) -> tuple[TextEdit, ...]:
    """The file without a scaler of this name; refused where it is used for more than scaling, stepping and updating."""
    edits: list[TextEdit] = []
    gone: list[ast.stmt] = []
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or dotted(node) != scaler:
            continue
        parent = module.parents.get(node)
        if isinstance(node.ctx, ast.Store):
            gone.append(_maker(module, node))
            continue
        call = module.parents.get(parent) if isinstance(parent, ast.Attribute) else None
        if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not parent:
            raise _also_used(module, node)
        statement = module.parents.get(call)
        given = call.args[0] if len(call.args) == 1 and not call.keywords else None
        match parent.attr:
            case "scale" if given is not None:
                edits += _plain_loss(module, call, given)
            case "step" if given is not None and dotted(given):
                edits += replace(module, call, f"{text_of(given)}.step()")
            case "unscale_" | "update" if isinstance(statement, ast.Expr):
                gone.append(statement)
            case _:
                raise _also_used(module, call)
    return (*edits, *without_statements(module, gone))


def _plain_loss(module: Module, call: ast.Call, given: ast.expr) -> tuple[TextEdit, ...]:
    if isinstance(given, _ATOMS):
        return without_call(module, call, given)
    # The brackets of the call are what the expression needs around it.
    start, end = offsets_of(module.source, call.func)
    return (module.source.edit(module.source.span(start, end), ""),)


def _maker(module: Module, target: ast.expr) -> ast.stmt:
    statement = module.parents.get(target)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    plain = isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in _MAKERS
    if not plain or (isinstance(statement, ast.Assign) and len(statement.targets) > 1):
        raise _also_used(module, target)
    assert isinstance(statement, ast.stmt)
    return statement


def _also_used(module: Module, node: ast.expr) -> RewriteRefused:
    message = f"`{text_of(node)}` uses the gradient scaler for more than scaling the loss and stepping"
    return RewriteRefused(message, file=module.path, line=node.lineno, hint="Take it out there first.")
