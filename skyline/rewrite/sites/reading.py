"""Where an iteration takes numbers out of tensors: sums that are kept, and lines that only report."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.backward import backwards
from skyline.rewrite.sites.iteration import Iteration, Region
from skyline.source.program import Module
from skyline.source.syntax import Function, dotted, last_name

_READS = ("item", "tolist", "numpy")
_REPORTS = {
    *(
        "info",
        "debug",
        "warning",
        "log",
        "write",
        "add_scalar",
        "add_scalars",
        "set_postfix",
        "set_description",
    ),
    *("set_postfix_str", "log_metrics", "log_metric", "report_scalar", "set_description_str"),
}
_DOES_MORE = {"step", "backward", "next", "update", "pop", "append", "zero_grad", "add", "send", "save"}

Kind = Literal["sum", "report", "value", "other"]


@dataclass(frozen=True, slots=True, eq=False)
class ReadingSite:
    """One statement that reads, in every iteration.

    A ``sum`` adds what it reads to a variable, a ``report`` prints or logs it and does nothing else, a ``value``
    gives it a name, anything else is ``other``. ``reads`` are the calls, or the names of tensors, that do it.
    """

    region: Region
    statement: ast.stmt
    reads: tuple[ast.expr, ...]
    kind: Kind

    @property
    def module(self) -> Module:
        """The file that it is in."""
        return self.region.module


def reading_sites(context: RewriteContext, within: Iteration) -> tuple[ReadingSite, ...]:
    """Every statement of an iteration that reads each time round; what stands under ``if step % n`` does not."""
    losses = {dotted(site.loss) for site in backwards(context, within)} - {""}
    found: dict[int, tuple[Region, ast.stmt, list[ast.expr]]] = {}
    for region, node in within.nodes(ast.Call, ast.Name, ast.Attribute):
        if not _reads(region.module, node, losses) or is_guarded(region, node):
            continue
        statement = statement_of(region.module, node)
        if isinstance(statement, Function | ast.ClassDef):
            continue
        found.setdefault(id(statement), (region, statement, []))[2].append(node)
    sites = [
        ReadingSite(region, statement, tuple(reads), _kind(statement, reads))
        for region, statement, reads in found.values()
    ]
    for site in [one for one in sites if one.kind == "value"]:
        for statement in _reports_of(site):
            if id(statement) not in found:
                found[id(statement)] = (site.region, statement, [])
                sites.append(ReadingSite(site.region, statement, (), "report"))
    return tuple(sites)


def _reports_of(site: ReadingSite) -> Iterator[ast.stmt]:
    """The statements of the same region that report the number which was given a name, in every iteration."""
    module, statement = site.module, site.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        for use in uses(module, statement.targets[0]):
            around, report = module.around(use), statement_of(module, use)
            if site.region.node in around and _is_report(report) and not is_guarded(site.region, use):
                yield report


def is_guarded(region: Region, node: ast.AST) -> bool:
    """Whether a node is carried out in some iterations only, by a remainder that is asked for."""
    for around in region.module.around(node):
        if around is region.node:
            return False
        if isinstance(around, ast.If | ast.IfExp) and any(
            isinstance(part, ast.Mod) for part in ast.walk(around.test)
        ):
            return True
    return False


def _reads(module: Module, node: ast.expr, losses: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[]) if name in _READS:
            return True
        case ast.Call(func=ast.Name(id="float" | "int"), args=[argument]):
            return dotted(argument) in losses
        case ast.Name() | ast.Attribute() if dotted(node) in losses and isinstance(node.ctx, ast.Load):
            # ``print(loss)`` and ``f"{loss}"`` read without a call of their own.
            statement = statement_of(module, node)
            return _is_report(statement) and not _is_read_by_call(module, node)
        case _:
            return False


def _is_read_by_call(module: Module, node: ast.expr) -> bool:
    """Whether a call around a name is counted already, or takes another thing of it, such as its shape."""
    parent = module.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return True
    return isinstance(parent, ast.Call) and last_name(parent.func) in ("float", "int", "len", "type")


def _kind(statement: ast.stmt, reads: list[ast.expr]) -> Kind:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        plain = isinstance(statement.target, ast.Name) and all(
            isinstance(one, ast.Call) and last_name(one.func) == "item" for one in reads
        )
        return "sum" if plain else "other"
    if _is_report(statement):
        return "report"
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return "value" if isinstance(statement.targets[0], ast.Name) else "other"
    return "other"


def _is_report(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    called = isinstance(function, ast.Name) and function.id == "print"
    if not called and not (isinstance(function, ast.Attribute) and function.attr in _REPORTS):
        return False
    inner = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)][1:]
    walrus = any(
        isinstance(node, ast.NamedExpr | ast.Await | ast.Yield) for node in ast.walk(statement.value)
    )
    return not walrus and not any(last_name(one.func) in _DOES_MORE for one in inner)


def uses(module: Module, name: ast.Name) -> Iterator[ast.Name]:
    """Where the variable of a name is read, in its own scope."""
    scope = module.scope(name)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load):
            looked_up = module.scope(node).lookup(node.id)
            if module.scope(node) is scope or (looked_up is not None and looked_up[0] is scope):
                yield node
