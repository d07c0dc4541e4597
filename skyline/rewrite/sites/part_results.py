"""Results of the parts of a batch that later code reads as the result of the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import refusal
from skyline.rewrite.sites.passes import ForwardSite, bound_names
from skyline.source.program import Module

_OF_GRADIENTS = ("backward", "grad", "grad_fn", "requires_grad", "requires_grad_", "retain_grad", "is_leaf")


@dataclass(frozen=True, slots=True)
class ReadLater:
    """Names that later code reads: the loss, and tensors with a row for each sample."""

    loss: bool
    results: tuple[str, ...]


def read_later(site: ForwardSite, statements: Sequence[ast.stmt]) -> ReadLater:
    """The results of ``statements``, from the forward to the backward pass, that are read after them.

    Raises RewriteRefused for a result that is not known to have a row for each sample.
    """
    module, region = site.module, site.region
    made = {name for statement in site.statements for name in bound_names(statement)}
    by_sample = _compared(site)
    first, end = statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno
    inside = {id(node) for statement in statements for node in ast.walk(statement)}
    scope = next(
        (each for each in module.around(site.backward.statement) if isinstance(each, ast.FunctionDef)), None
    )
    loss, results = False, dict[str, None]()
    for node in ast.walk(scope or module.tree):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in inside:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        name = ast.unparse(node)
        if name == site.loss:
            loss = True
        elif name in made and (node.lineno > end or isinstance(region.node, ast.For | ast.While)):
            if node.lineno < first or all(each is not region.node for each in module.around(node)):
                continue
            if name not in by_sample or _needs_gradient(module, node):
                raise refusal(f"`{name}` is used after the backward pass, for the whole batch", module, node)
            results[name] = None
    return ReadLater(loss, tuple(results))


def appended(statement: ast.stmt) -> tuple[str, str] | None:
    """The names of the list and of the result in ``whole_out.append(out.detach())``."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=whole), attr="append"),
                args=[ast.Call(func=ast.Attribute(value=ast.Name(id=result), attr="detach"), args=[])],
            )
        ):
            return whole, result
        case _:
            return None


def _compared(site: ForwardSite) -> set[str]:
    """The results that the loss compares with a tensor of the batch: they have as many rows as that tensor."""
    last = site.statements[-1]
    value = last.value if isinstance(last, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.Call) or any(value is call for call in site.calls) or len(value.args) < 2:
        return set()
    arguments = {each.id for each in value.args if isinstance(each, ast.Name)}
    assigned = [
        statement.targets[0].id
        for statement in site.statements
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    ]
    return {name for name in arguments if assigned.count(name) == 1}


def _needs_gradient(module: Module, node: ast.Name | ast.Attribute) -> bool:
    """True if code reads the gradient of a result, or changes the result in place."""
    around = module.parents.get(node)
    if not isinstance(around, ast.Attribute):
        return False
    changes = around.attr.endswith("_") and not around.attr.startswith("_")
    return changes or around.attr in _OF_GRADIENTS
