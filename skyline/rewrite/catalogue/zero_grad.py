"""Sets gradients to None between steps instead of filling them with zeros."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import keyword_of, replace_value, set_argument
from skyline.rewrite.blocks import replace, statement_of
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.sites.iteration import Iteration, Region, iteration
from skyline.rewrite.sites.passes import StepSite, backwards, zero_grads
from skyline.source.program import Module
from skyline.source.text import TextEdit, dotted, offsets_of, text_of, tokens_of

NAME = "zero_grad"
# Before the accumulation of gradients, which moves the call.
ORDER = 25
_GIVES_UP_SINCE = 2
"""The first major version of PyTorch whose ``zero_grad()`` sets gradients to None by default."""


def snippet(value: str) -> str:
    """The call that relies on the default."""
    return "optimizer.zero_grad()  # set_to_none=True is what PyTorch does by itself since 2.0\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Writes ``set_to_none=True`` in every ``zero_grad()``, and ``p.grad = None`` in loops that zero."""
    check_switched_on(NAME, value)
    within = iteration(context)
    calls, loops = zero_grads(context, within), list(_loops(within))
    singles = list(_singles(within, loops))
    if not calls and not loops and not singles:
        if any(_is_given_up(node) for _, node in within.nodes(ast.Assign)):
            return ()
        raise RewriteRefused("No `zero_grad()` was found in the training loop", file=context.profile.script)
    _check_reads(context, within, singles)
    edits: list[TextEdit] = []
    for site in calls:
        edits += _given_up(site)
    for region, loop, name in loops:
        edits += _loop_given_up(region.module, loop, name)
    for region, statement, name in singles:
        edits += replace(region.module, statement.value, f"{name}.grad = None")
    return tuple(edits)


def _given_up(site: StepSite) -> tuple[TextEdit, ...]:
    module, call = site.region.module, site.call
    given = keyword_of(call, "set_to_none")
    node = given.value if given is not None else (call.args[0] if call.args else None)
    if node is None:
        if any(keyword.arg is None for keyword in call.keywords):
            message = f"`{text_of(call)}` takes its options from a mapping"
            raise refusal(message, module, call, hint="Change it there.")
        return ()
    if not isinstance(node, ast.Constant):
        message = f"`set_to_none={text_of(node)}` is computed when the script runs"
        raise refusal(message, module, call, hint="Set it to True there.")
    if node.value:
        return ()
    if given is not None and not call.args and len(call.keywords) == 1:
        return (_without_arguments(module, call),)
    return (replace_value(module.source, node, "True"),)


def _without_arguments(module: Module, call: ast.Call) -> TextEdit:
    """An edit that empties the brackets, since the default is wanted."""
    _, begin = offsets_of(module.source, call.func)
    _, end = offsets_of(module.source, call)
    inside = module.source.text[begin:end]
    if "#" in inside or len(inside.splitlines()) > 1:
        # A comment in the brackets stays with its argument.
        return replace_value(module.source, call.keywords[0].value, "True")
    opening = tokens_of(module.source).before(end)
    assert opening is not None
    start = begin + inside.index("(") + 1
    return module.source.edit(module.source.span(start, end - 1), "")


def _loops(within: Iteration) -> Iterator[tuple[Region, ast.For, str]]:
    """Loops over parameters that only zero their gradients, with the name of the parameter."""
    for region, loop in within.nodes(ast.For):
        name = loop.target.id if isinstance(loop.target, ast.Name) else ""
        if isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[-1], ast.Name):
            name = loop.target.elts[-1].id
        inner = loop.body
        if len(inner) == 1 and isinstance(inner[0], ast.If) and not inner[0].orelse:
            inner = inner[0].body
        zeroing = [_zeroes(statement, name) for statement in inner]
        if name and not loop.orelse and any(zeroing):
            if not all(
                each or _detaches(statement, name) for each, statement in zip(zeroing, inner, strict=True)
            ):
                message = f"The loop over `{text_of(loop.iter)}` does more than zero gradients"
                raise refusal(message, region.module, loop)
            yield region, loop, name


def _singles(
    within: Iteration, loops: list[tuple[Region, ast.For, str]]
) -> Iterator[tuple[Region, ast.Expr, str]]:
    """Statements that zero the gradient of one tensor, with its name: ``w.grad.zero_()``."""
    in_loops = {id(node) for _, loop, _ in loops for node in ast.walk(loop)}
    for region, statement in within.nodes(ast.Expr):
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            name = dotted(call.func.value).removesuffix(".data").removesuffix(".grad")
            if name and id(statement) not in in_loops and _zeroes(statement, name):
                yield region, statement, name


def _is_given_up(statement: ast.Assign) -> bool:
    """True if a statement is ``p.grad = None``."""
    nothing = isinstance(statement.value, ast.Constant) and statement.value.value is None
    return nothing and any(
        isinstance(target, ast.Attribute) and target.attr == "grad" for target in statement.targets
    )


def _zeroes(statement: ast.stmt, name: str) -> bool:
    """True if a statement is ``p.grad.zero_()``, ``p.grad.data.zero_()`` or ``p.grad.fill_(0)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if dotted(call.func.value) not in (f"{name}.grad", f"{name}.grad.data"):
        return False
    zero = [arg for arg in call.args if isinstance(arg, ast.Constant) and arg.value == 0]
    return call.func.attr == "zero_" or (call.func.attr == "fill_" and len(zero) == 1)


def _detaches(statement: ast.stmt, name: str) -> bool:
    """True if a statement is ``p.grad.detach_()``. It has no effect on a gradient that is set to None."""
    return isinstance(statement, ast.Expr) and ast.unparse(statement.value) == f"{name}.grad.detach_()"


def _loop_given_up(module: Module, loop: ast.For, name: str) -> tuple[TextEdit, ...]:
    inner = loop.body[0].body if isinstance(loop.body[0], ast.If) else loop.body
    edits: list[TextEdit] = []
    for statement in inner:
        assert isinstance(statement, ast.Expr)
        edits += replace(module, statement.value, f"{name}.grad = None")
    return tuple(edits)


def _check_reads(
    context: RewriteContext, within: Iteration, singles: list[tuple[Region, ast.Expr, str]]
) -> None:
    """Refuses if gradients are read or written between steps as if they always existed."""
    passes = backwards(context, within)
    for region, node in within.nodes(ast.Attribute):
        if node.attr != "grad" or dotted(node).startswith("torch."):
            continue
        around = region.module.parents.get(node)
        compared = isinstance(around, ast.Compare) and any(
            isinstance(op, ast.Is | ast.IsNot) for op in around.ops
        )
        cleared = isinstance(node.ctx, ast.Store)
        statement = statement_of(region.module, node)
        name = dotted(node.value)
        loop = region.module.parents.get(statement)
        guarded = any(
            f"{dotted(node)} is not None" in ast.unparse(test)
            for each in region.module.around(node)
            for test in _tests(each)
        )
        if compared or cleared or guarded or _zeroes(statement, name) or _detaches(statement, name):
            continue
        if (
            isinstance(loop, ast.If)
            and f"{name}.grad" in ast.unparse(loop.test)
            and node in ast.walk(loop.test)
        ):
            continue
        zeroed = [each for other, each, own in singles if own == name and other.node is region.node]
        filled = [site for site in passes if site.region.node is region.node]
        if any(
            filling.statement.lineno < statement.lineno < each.lineno
            and all(_always(region, one) for one in (filling.statement, statement))
            for filling in filled
            for each in zeroed
        ):
            continue  # each backward pass fills it again, as the first did
        message = f"`{text_of(statement)}` uses a gradient, which may not be there any more"
        raise refusal(message, region.module, node, hint="Guard it: if p.grad is not None.")


def _tests(node: ast.AST) -> list[ast.expr]:
    """The conditions of an ``if`` or of a comprehension."""
    match node:
        case ast.If():
            return [node.test]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [test for each in node.generators for test in each.ifs]
        case _:
            return []


def _always(region: Region, statement: ast.stmt) -> bool:
    """True if a statement runs each time its region runs: directly in the region, or under ``with``."""
    around = region.module.parents.get(statement)
    while isinstance(around, ast.With):
        around = region.module.parents.get(around)
    return around is region.node


def present(context: RewriteContext) -> str | None:
    """``on`` if every ``zero_grad()`` of the loop sets gradients to None, the default since PyTorch 2.0."""
    within = iteration(context)
    calls = zero_grads(context, within)
    if not calls:
        return "on" if _given_up_by_hand(within) else None
    default = int(context.profile.environment.torch.partition(".")[0] or 0) >= _GIVES_UP_SINCE
    return "on" if all(_gives_up(site.call, default) for site in calls) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Writes ``set_to_none=False`` in every ``zero_grad()``, and ``p.grad.zero_()`` for ``p.grad = None``."""
    within = iteration(context)
    edits: list[TextEdit] = []
    for site in zero_grads(context, within):
        edits += set_argument(context, site.region.module, site.call, "set_to_none", "False", position=0)
    filled = backwards(context, within)
    for region, statement in _given_up_by_hand(within):
        module, target = region.module, statement.targets[0]
        guard = module.parents.get(statement)
        guarded = isinstance(guard, ast.If) and f"{text_of(target)} is not None" in ast.unparse(guard.test)
        behind = any(
            site.region.node is region.node and site.statement.lineno < statement.lineno for site in filled
        )
        if len(statement.targets) > 1 or not (guarded or behind):
            message = f"`{text_of(statement)}` may come before there is a gradient to fill with zeros"
            raise refusal(message, module, statement, hint="Guard it: if p.grad is not None.")
        start, end = offsets_of(module.source, statement)
        edits.append(module.source.edit(module.source.span(start, end), f"{text_of(target, 200)}.zero_()"))
    return tuple(edits)


def _gives_up(call: ast.Call, default: bool) -> bool:
    given = keyword_of(call, "set_to_none")
    node = given.value if given is not None else (call.args[0] if call.args else None)
    if node is None:
        return default and not call.keywords
    return isinstance(node, ast.Constant) and node.value is True


def _given_up_by_hand(within: Iteration) -> list[tuple[Region, ast.Assign]]:
    return [(region, node) for region, node in within.nodes(ast.Assign) if _is_given_up(node)]
