"""Numbers are read from tensors in some iterations only: sums stay tensors, reports come every so often."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import replace, wrap, wrap_expression
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.imports import free_name
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.iteration import Iteration, iteration
from skyline.rewrite.sites.reading import ReadingSite, is_guarded, reading_sites, uses
from skyline.rewrite.value import whole_number
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import Function, offsets_of, text_of

NAME = "remove_sync"
ORDER = 70
_NEVER = ("", "all")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``remove_sync=10``: reports come in every tenth iteration; refused where a number is used otherwise."""
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
            message = f"What `{text_of(site.reads[0])}` reads is used beyond reports and sums"
            raise RewriteRefused(message, file=site.module.path, line=line, snippet=snippet)
        if site.kind == "sum":
            continue
        if site.region.node is not loop.loop:
            message = f"`{text_of(site.statement)}` stands in a function, where iterations are not counted"
            raise RewriteRefused(message, file=site.module.path, line=line, snippet=snippet)
        if not every:
            message = f"Line {line} reports in every iteration"
            hint = "Say how often it should: remove_sync=10."
            raise RewriteRefused(message, file=site.module.path, line=line, hint=hint)
        if site.kind == "value":
            _check_value(site, sites, snippet)


def _check_value(site: ReadingSite, sites: tuple[ReadingSite, ...], snippet: str) -> None:
    """Raises RewriteRefused where a number that is given a name is used in more than reports."""
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
    """Each run of neighbours among the statements under one condition."""
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
    """What counts the iterations, and the edits that make the loop count where it does not."""
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
    """Whether ``enumerate`` is what is gone through, within progress bars maybe."""
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
    """A name that each iteration adds one to, in the loop's own body; empty without one."""
    for statement in loop.body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=1)):
                return name
            case _:
                continue
    return ""


def _kept_as_tensor(loop: Iteration, site: ReadingSite) -> list[TextEdit]:
    """``total += loss.item()`` adds ``loss.detach()``; where the total is used it becomes a number again."""
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
        edits += replace(module, read, f"{_text(module, read.func.value)}.detach()")
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


def _text(module: Module, node: ast.expr) -> str:
    start, end = offsets_of(module.source, node)
    return module.source.text[start:end]
