"""Reads numbers from tensors in some iterations only: sums stay tensors, reports come every N iterations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import replace, statement_of, wrap, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.imports import free_name
from skyline.rewrite.sites.iteration import Iteration, Region, iteration
from skyline.rewrite.sites.passes import backwards
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, offsets_of, text_of, written

_READS = ("item", "tolist", "numpy")
_REPORTS = {
    "info", "debug", "warning", "log", "write", "add_scalar", "add_scalars", "set_postfix", "set_description",
    "set_postfix_str", "log_metrics", "log_metric", "report_scalar", "set_description_str",
}  # fmt: skip
_DOES_MORE = {"step", "backward", "next", "update", "pop", "append", "zero_grad", "add", "send", "save"}

Kind = Literal["sum", "report", "value", "other"]


@dataclass(frozen=True, slots=True, eq=False)
class ReadingSite:
    """One statement that reads a number from a tensor in every iteration.

    A ``sum`` adds the number to a variable, a ``report`` only prints or logs it, a ``value`` binds it to a
    name, anything else is ``other``. ``reads`` are the calls, or the names of tensors, that read.
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
    """Every statement that reads in each iteration; statements under ``if step % n`` do not."""
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
    """The statements of the same region that report the named number in every iteration."""
    module, statement = site.module, site.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        for use in uses(module, statement.targets[0]):
            around, report = module.around(use), statement_of(module, use)
            if site.region.node in around and _is_report(report) and not is_guarded(site.region, use):
                yield report


def is_guarded(region: Region, node: ast.AST) -> bool:
    """True if a remainder test, as in ``if step % n``, lets a node run in some iterations only."""
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
    """True if a call around a name is counted already, or uses something else of it, such as its shape."""
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
    """The places where the variable of a name is read, in its own scope."""
    scope = module.scope(name)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load):
            looked_up = module.scope(node).lookup(node.id)
            if module.scope(node) is scope or (looked_up is not None and looked_up[0] is scope):
                yield node


NAME = "remove_sync"
ORDER = 70
_NEVER = ("", "all")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``remove_sync=10`` reports every tenth iteration; refused if a number has other uses."""
    every = 0 if value in _NEVER else whole_number(NAME, value)
    loop = iteration(context)
    sites = reading_sites(context, loop)
    _check(loop, sites, every)
    edits: list[TextEdit] = []
    reports = [site for site in sites if site.kind in ("report", "value")]
    if reports:
        index, made = _index(loop)
        edits += made
        edits += _guarded(reports, f"if {index} % {every} == 0:")
    for site in sites:
        if site.kind == "sum":
            edits += _kept_as_tensor(loop, site)
    return tuple(dict.fromkeys(edits))


def _check(loop: Iteration, sites: tuple[ReadingSite, ...], every: int) -> None:
    for site in sites:
        line = site.statement.lineno
        snippet = (
            f"if step % {every or 10} == 0:  # step: a counter of iterations\n    {text_of(site.statement)}\n"
        )
        if site.kind == "other":
            message = f"The value that `{text_of(site.reads[0])}` reads is used beyond reports and sums"
            raise RewriteRefused(message, file=site.module.path, line=line, snippet=snippet)
        if site.kind == "sum":
            continue
        if site.region.node is not loop.loop:
            message = f"`{text_of(site.statement)}` stands in a function, where iterations are not counted"
            raise RewriteRefused(message, file=site.module.path, line=line, snippet=snippet)
        if not every:
            message = f"Line {line} reports in every iteration"
            hint = "Give the interval: remove_sync=10."
            raise RewriteRefused(message, file=site.module.path, line=line, hint=hint)
        if site.kind == "value":
            _check_value(site, sites, snippet)


def _check_value(site: ReadingSite, sites: tuple[ReadingSite, ...], snippet: str) -> None:
    """Raises RewriteRefused if a named number is used in more than reports."""
    name = site.statement.targets[0] if isinstance(site.statement, ast.Assign) else None
    assert isinstance(name, ast.Name)
    reported = [one.statement for one in sites if one.kind == "report"]
    module = site.module
    for use in uses(module, name):
        around = [use, *module.around(use)]
        if not any(one is statement for one in around for statement in reported):
            message = f"`{name.id}` is used beyond reports, on line {use.lineno}"
            raise refusal(message, module, site.statement, snippet=snippet)


def _guarded(reports: list[ReadingSite], header: str) -> list[TextEdit]:
    """Puts each group of neighbouring statements under one condition."""
    edits: list[TextEdit] = []
    runs: list[list[ReadingSite]] = []
    for site in sorted(
        reports, key=lambda one: (one.module.path, one.statement.lineno, one.statement.col_offset)
    ):
        if runs and _follows(runs[-1][-1], site):
            runs[-1].append(site)
        else:
            runs.append([site])
    for run in runs:
        edits += wrap(run[0].module, [one.statement for one in run], header)
    return edits


def _follows(earlier: ReadingSite, later: ReadingSite) -> bool:
    parent = earlier.module.parents.get(earlier.statement)
    if parent is None or later.module.parents.get(later.statement) is not parent:
        return False
    for name in ("body", "orelse", "finalbody"):
        suite: list[ast.stmt] = getattr(parent, name, [])
        if earlier.statement in suite and later.statement in suite:
            return suite.index(later.statement) == suite.index(earlier.statement) + 1
    return False


def _index(loop: Iteration) -> tuple[str, tuple[TextEdit, ...]]:
    """The counter of the iterations, and the edits that add one if the loop does not count."""
    module, node = loop.module, loop.loop
    if isinstance(node, ast.While):
        if counter := _counter(node):
            return counter, ()
        message = "The loop does not count its iterations"
        raise refusal(message, module, node, hint="Add a counter: step += 1.")
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else ""
    if name == "range" and isinstance(node.target, ast.Name):
        return node.target.id, ()
    if (
        _counts(node.iter)
        and isinstance(node.target, ast.Tuple)
        and isinstance(node.target.elts[0], ast.Name)
        and node.target.elts[0].id != "_"
    ):
        return node.target.elts[0].id, ()
    if counter := _counter(node):
        return counter, ()
    if _counts(node.iter) or isinstance(node, ast.AsyncFor):
        raise refusal("The iterations are counted, but their number has no name", module, node)
    index = free_name(module, "step", "iteration")
    return index, (*_named(module, node, index), *wrap_expression(module, node.iter, "enumerate(", ")"))


def _counts(node: ast.expr) -> bool:
    """True if a loop goes over ``enumerate``, maybe inside progress bars."""
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == "enumerate")
        or any(_counts(one) for one in node.args[:1])
    )


def _named(module: Module, node: ast.For | ast.AsyncFor, index: str) -> tuple[TextEdit, ...]:
    start, end = offsets_of(module.source, node.target)
    source = module.source
    bare = isinstance(node.target, ast.Tuple) and source.text[start] != "("
    opening, closing = ("(", ")") if bare else ("", "")
    edits = [source.edit(source.span(start, start), f"{index}, {opening}")]
    if closing:
        edits.append(source.edit(source.span(end, end), closing))
    return tuple(edits)


def _counter(loop: ast.For | ast.AsyncFor | ast.While) -> str:
    """A name that the loop's own body increments by one in each iteration; empty without one."""
    for statement in loop.body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=1)):
                return name
            case _:
                continue
    return ""


def _kept_as_tensor(loop: Iteration, site: ReadingSite) -> list[TextEdit]:
    """Makes ``total += loss.item()`` add ``loss.detach()``; uses of the total convert it to a number."""
    module, statement = site.module, site.statement
    assert isinstance(statement, ast.AugAssign)
    assert isinstance(statement.target, ast.Name)
    name = statement.target.id
    function = next((one for one in module.around(statement) if isinstance(one, Function)), None)
    bindings = module.scope(statement).lookup(name)
    if bindings is None or (bindings[0] is not module.scope(statement)):
        raise refusal(f"`{name}` is not a variable of the function that adds to it", module, statement)
    edits: list[TextEdit] = []
    for read in site.reads:
        assert isinstance(read, ast.Call)
        assert isinstance(read.func, ast.Attribute)
        edits += replace(module, read, f"{written(module.source, read.func.value)}.detach()")
    number = "int" if any(isinstance(node, ast.Compare) for node in ast.walk(statement.value)) else "float"
    for use in uses(module, statement.target):
        parent = module.parents.get(use)
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == number:
            continue
        around = list(module.around(use))
        if loop.loop in around and not is_guarded(site.region, use):
            raise refusal(f"`{name}` is read in every iteration, on line {use.lineno}", module, statement)
        inner = next((one for one in around if isinstance(one, Function)), None)
        if inner is not function:
            raise refusal(f"`{name}` is used by another function, on line {use.lineno}", module, statement)
        edits += wrap_expression(module, use, f"{number}(", ")")
    return edits
