"""Passes each batch through the model in equal parts, whose gradients add up before the optimizer steps."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TypeGuard

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import (
    insert_after,
    insert_before,
    replace,
    suite_of,
    unit_of,
    wrap,
)
from skyline.rewrite.blocks import (
    remove as without,
)
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.imports import free_name, usable
from skyline.rewrite.sites.accumulated import accumulated_setting
from skyline.rewrite.sites.batch_parts import batch_names, check_mean
from skyline.rewrite.sites.iteration import Iteration, iteration
from skyline.rewrite.sites.part_results import appended, read_later
from skyline.rewrite.sites.passes import ForwardSite, backwards, forward, steps, zero_grads
from skyline.rewrite.unwrapping import unwrap, without_statements
from skyline.source.program import Module
from skyline.source.text import TextEdit, last_name, text_of


@dataclass(frozen=True, slots=True, eq=False)
class PartsLoop:
    """``for x_part, y_part in zip(x.chunk(4), y.chunk(4)):`` around a backward pass.

    ``names`` maps the names of the parts to the names of the batch; ``number`` is the number of parts.
    """

    module: Module
    loop: ast.For
    names: dict[str, str]
    number: int


def parts_loop(context: RewriteContext) -> PartsLoop | None:
    """The loop over parts of the batch. None without one."""
    for site in backwards(context, iteration(context)):
        module = site.region.module
        for around in module.around(site.statement):
            if isinstance(around, ast.For) and (found := _read(module, around)) is not None:
                return found
    return None


def joined(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Applies the statements of the loop to the whole batch, and removes the loop."""
    return context.in_turn((_without_weights, _without_loop))


def _read(module: Module, loop: ast.For) -> PartsLoop | None:
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    match loop.iter:
        case ast.Call(func=ast.Name(id="zip"), args=given, keywords=[]):
            chunks = given
        case _:
            chunks = [loop.iter]
    names: dict[str, str] = {}
    numbers: set[object] = set()
    for target, chunk in zip(targets, chunks, strict=False):
        match target, chunk:
            case (
                ast.Name(id=part),
                ast.Call(
                    func=ast.Attribute(value=ast.Name(id=whole), attr="chunk"),
                    args=[ast.Constant(value=int(number))],
                    keywords=[],
                ),
            ):
                names[part] = whole
                numbers.add(number)
            case _:
                return None
    if len(targets) != len(chunks) or len(numbers) != 1:
        return None
    return PartsLoop(module, loop, names, int(str(numbers.pop())))


def _without_weights(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Applies the loop to the whole batch, without the weight of each part."""
    found = parts_loop(context)
    assert found is not None
    module, loop = found.module, found.loop
    gone: list[ast.stmt] = []
    edits: list[TextEdit] = []
    body = list(loop.body)
    while (gathered := appended(body[-1])) is not None:
        gone.append(body.pop())
        whole, result = gathered
        gone += _around(module, loop, whole, "[]", rf"{result} = ([\w.]+\.)?cat\({whole}\)")
    total = _total(body[-1])
    if total is not None:
        gone.append(body.pop())
        whole, loss = total
        gone += _around(module, loop, whole, "0.0", rf"{re.escape(loss)} = {whole}")
    weighing = _weighing(found, body[-1])
    if weighing is None:
        message = f"The loop over `{text_of(loop.iter)}` is not one that Skyline wrote"
        hint = "Remove the loop by hand: the statements in it on the whole batch, with the loss as it is."
        raise refusal(message, module, loop, hint=hint)
    gone.append(weighing.statement)
    edits += replace(module, weighing.given, weighing.loss)
    going = {id(node) for statement in gone for node in ast.walk(statement)}
    for node in (node for statement in loop.body for node in ast.walk(statement)):
        read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in going
        if isinstance(node, ast.Name) and read and node.id in found.names:
            edits += replace(module, node, found.names[node.id])
    return (*edits, *without_statements(module, gone))


@dataclass(frozen=True, slots=True, eq=False)
class _Weighing:
    """``part_loss = loss * (len(x_part) / len(x))``, and the backward pass that takes it."""

    statement: ast.Assign
    loss: str
    given: ast.Name


def _weighing(found: PartsLoop, last: ast.stmt) -> _Weighing | None:
    """The statement that weights the loss, if only the backward pass uses its result."""
    backward = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(backward, ast.Call) or last_name(backward.func) != "backward":
        return None
    inside = {id(node) for node in ast.walk(backward)}
    names = [node for node in ast.walk(found.loop) if isinstance(node, ast.Name)]
    for each in ast.walk(found.loop):
        match each:
            case ast.Assign(
                targets=[ast.Name(id=part)],
                value=ast.BinOp(left=ast.Name() | ast.Attribute() as loss, op=ast.Mult(), right=weight),
            ) if _is_weight(weight, found):
                read = [node for node in names if node.id == part and isinstance(node.ctx, ast.Load)]
                if len(read) == 1 and id(read[0]) in inside:
                    return _Weighing(each, ast.unparse(loss), read[0])
            case _:
                continue
    return None


def _without_loop(context: RewriteContext) -> tuple[TextEdit, ...]:
    found = parts_loop(context)
    assert found is not None
    return unwrap(found.module, found.loop)


def _total(statement: ast.stmt) -> tuple[str, str] | None:
    """The names of the sum and of the loss in ``whole_loss += loss.detach() * …``."""
    match statement:
        case ast.AugAssign(
            target=ast.Name(id=whole),
            op=ast.Add(),
            value=ast.BinOp(left=ast.Call(func=ast.Attribute(value=loss, attr="detach")), op=ast.Mult()),
        ):
            return whole, ast.unparse(loss)
        case _:
            return None


def _around(module: Module, loop: ast.For, whole: str, start: str, behind: str) -> list[ast.stmt]:
    """``whole_loss = 0.0`` before the loop, and the statement that matches ``behind`` directly after it.

    Other results of the parts may be joined between the two.
    """
    parent = module.parents.get(loop)
    suite: list[ast.stmt] = next(
        each for name in ("body", "orelse", "finalbody") if loop in (each := getattr(parent, name, []))
    )
    at = suite.index(loop)
    before = [each for each in suite[:at] if ast.unparse(each) == f"{whole} = {start}"][-1:]
    joined = [each for each in suite[at + 1 : at + 5] if re.fullmatch(behind, ast.unparse(each))][:1]
    if not before or not joined:
        message = f"`{whole}` is summed up over the parts in another way than Skyline writes"
        raise refusal(message, module, loop, hint="Remove the loop by hand.")
    return [*before, *joined]


def _is_weight(weight: ast.expr, found: PartsLoop) -> bool:
    """True for ``len(x_part) / len(x)`` with a name of the batch."""
    return any(ast.unparse(weight) == f"len({part}) / len({whole})" for part, whole in found.names.items())


NAME = "grad_accumulation"
ORDER = 30
"""Before the changes around the forward pass: those go inside the loop over parts."""


@dataclass(frozen=True, slots=True)
class _Body:
    """The statements that run for each part, and the first ones among them, which clear gradients."""

    first: ast.stmt
    statements: tuple[ast.stmt, ...]
    clearing: tuple[ast.stmt, ...]


def snippet(value: str) -> str:
    """The change in a loop that is written plainly."""
    parts = value if value.isdigit() else "4"
    return (
        "optimizer.zero_grad()\n"
        f"for x_part, y_part in zip(x.chunk({parts}), y.chunk({parts})):\n"
        "    loss = criterion(model(x_part), y_part)\n"
        "    (loss * (len(x_part) / len(x))).backward()  # for a loss that is a mean\n"
        "optimizer.step()\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds a loop over parts of the batch around forward pass, loss and ``backward()``."""
    parts = whole_number(NAME, value or "2")
    if parts == 1:
        return ()
    configured = accumulated_setting(context, parts)
    if configured is not None:
        return configured
    within = iteration(context)
    site = forward(context, within)
    if _is_there(site):
        return ()
    _check_not_accumulating(context, site, within, parts)
    body = _body(context, site, within)
    _check(context, site, within, parts)
    check_mean(context, site)
    batch = batch_names(context, site)
    return _written(site, body, batch, parts)


def _check_not_accumulating(
    context: RewriteContext, site: ForwardSite, within: Iteration, parts: int
) -> None:
    """Refuses a script with its own micro-batches: the person has to change their number and size."""
    module, call = site.module, site.backward.call
    number: ast.expr | None = None
    for around in module.around(site.backward.statement):
        if around is within.loop:
            break
        match around:
            case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[*_, number])):
                pass
            case _:
                continue
    for each in steps(context, within):
        parent = each.region.module.parents.get(each.statement)
        if isinstance(parent, ast.If):
            moduli = [node.right for node in ast.walk(parent.test) if _is_remainder(node)]
            number = moduli[0] if moduli else number
            module, call = each.region.module, each.call
    told = context.profile.batch.micro_batches
    if number is None and told <= 1:
        return
    name = f"`{text_of(number)}`" if number is not None else "their number"
    count = f"{told} micro-batches" if told > 1 else "several batches"
    raise refusal(
        f"The script accumulates gradients over {count} already",
        module,
        call,
        hint=f"Multiply {name} by {parts} and divide the batch size by {parts}.",
    )


def _is_remainder(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _check(context: RewriteContext, site: ForwardSite, within: Iteration, parts: int) -> None:
    back, module = site.backward, site.module
    if back.scaler is not None or back.driver is not None:
        by = "a gradient scaler" if back.scaler is not None else f"`{text_of(back.driver)}`"  # type: ignore[arg-type]
        raise refusal(f"The backward pass goes through {by}", module, back.call)
    if back.call.args or back.call.keywords:
        raise refusal(f"`{text_of(back.call)}` has arguments of its own", module, back.call)
    found = steps(context, within)
    if len(found) != 1:
        raise refusal(f"The loop has {len(found) or 'no'} calls of `optimizer.step()`", module, back.call)
    if found[0].has_closure:
        raise refusal("The optimizer evaluates the loss by itself, through a closure", module, found[0].call)
    if isinstance(found[0].region.module.parents.get(found[0].statement), ast.If):
        raise refusal("The optimizer steps in some iterations only", module, found[0].call)
    size, seen = context.profile.batch_size, context.profile.batch.leading_dimensions
    if size is not None and seen and size not in seen:
        raise refusal(f"The model is not called with {size} samples at a time", module, site.calls[0])
    if size is not None and size % parts:
        raise refusal(
            f"A batch of {size} samples cannot be split into {parts} equal parts", module, site.calls[0]
        )


def _is_there(site: ForwardSite) -> bool:
    return any(
        isinstance(around, ast.For) and ".chunk(" in ast.unparse(around.iter)
        for around in site.module.around(site.backward.statement)
    )


def _body(context: RewriteContext, site: ForwardSite, within: Iteration) -> _Body:
    back, module = site.backward, site.module
    suite = suite_of(module, site.statements[0])
    if not any(each is back.statement for each in suite) or not isinstance(back.statement, ast.Expr):
        raise refusal("Forward pass and `backward()` are not in one block", module, back.call)
    begin, end = suite.index(site.statements[0]), suite.index(back.statement)
    clearing_calls = {id(zero.statement) for zero in zero_grads(context, within)}
    clearing: list[ast.stmt] = []
    for statement in suite[suite.index(site.statements[-1]) + 1 : end]:
        if id(statement) not in clearing_calls:
            raise refusal(
                f"`{text_of(statement)}` stands between the loss and `backward()`", module, statement
            )
        clearing.append(statement)
    clearing += [
        statement
        for statement in suite[begin:end]
        if id(statement) in clearing_calls and statement not in clearing
    ]
    header = module.parents[suite[begin]]
    if getattr(header, "lineno", 0) == suite[begin].lineno:
        raise refusal(
            f"`{text_of(suite[begin])}` stands on the line of its block's header", module, suite[begin]
        )
    for before, behind in pairwise(suite):
        if (before.end_lineno or before.lineno) == behind.lineno and begin - 1 <= suite.index(before) <= end:
            raise refusal(f"`{text_of(behind)}` shares its line with others", module, behind)
    for statement in suite[begin : end + 1]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Break | ast.Continue | ast.Return | ast.Yield | ast.Await):
                raise refusal("The loop is left between forward pass and `backward()`", module, statement)
    return _Body(suite[begin], tuple(suite[begin : end + 1]), tuple(clearing))


def _written(site: ForwardSite, body: _Body, batch: tuple[str, ...], parts: int) -> tuple[TextEdit, ...]:
    module, back = site.module, site.backward
    named = {name: free_name(module, f"{name}_part", "micro") for name in batch}
    first = batch[0]
    share = f"len({named[first]}) / len({first})"
    chunks = ", ".join(f"{name}.chunk({parts})" for name in batch)
    over = f"zip({chunks})" if len(batch) > 1 else chunks
    header = f"for {', '.join(named.values())} in {over}:"
    edits: list[TextEdit] = []
    clearing = [_line(module, statement) for statement in body.clearing]
    for statement in body.clearing:
        edits += without(module, statement)
    cleared = {
        line
        for statement in body.clearing
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }
    before, within, after = list(clearing), list[str](), list[str]()
    later = read_later(site, body.statements)
    if later.loss:
        whole = free_name(module, "whole_loss", "batch")
        before.append(f"{whole} = 0.0")
        within.append(f"    {whole} += {site.loss}.detach() * ({share})")
        after.append(f"{site.loss} = {whole}")
    for name in later.results:
        whole, cat = free_name(module, f"whole_{name}", "batch"), usable(module, "torch.cat", body.first)
        before.append(f"{whole} = []")
        within.append(f"    {whole}.append({name}.detach())")
        after.append(f"{name} = {cat.text}({whole})")
        edits += cat.edits
    made: list[TextEdit] = []
    if before:
        made += insert_before(module, body.first, *before)
    made += wrap(module, list(body.statements), header)
    for statement in body.statements:
        if statement in body.clearing or statement is back.statement:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in named and isinstance(node.ctx, ast.Load):
                made += replace(module, node, named[node.id])
    part = free_name(module, "part_loss", "micro")
    made += _above(module, back.statement, f"{part} = {site.loss} * ({share})")
    made += replace(module, back.loss, part)
    # Lines that are removed are not moved.
    kept = [edit for edit in made if edit.span.line not in cleared]
    if after:
        kept += insert_after(module, back.statement, *within, *after)
    return tuple(dict.fromkeys((*edits, *kept)))


def _above(module: Module, statement: ast.stmt, line: str) -> list[TextEdit]:
    """Adds a line before a statement that moves one level deeper by other edits."""
    (edit,) = insert_before(module, statement, line)
    source = module.source
    indent = source.line(statement.lineno)[: statement.col_offset]
    return [source.edit(edit.span, edit.new_text + unit_of(module, indent))]


def _line(module: Module, statement: ast.stmt) -> str:
    return ast.get_source_segment(module.source.text, statement) or ast.unparse(statement)


def present(context: RewriteContext) -> str | None:
    """The number of parts per batch, or of batches whose gradients add up before a step."""
    found = parts_loop(context)
    if found is not None:
        return str(found.number)
    told = context.profile.batch.micro_batches
    return str(told) if told > 1 and context.as_profiled() else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Takes the whole batch at a time, if Skyline wrote the loop over its parts."""
    if parts_loop(context) is None:
        within = iteration(context)
        message = (
            f"The script accumulates gradients over {context.profile.batch.micro_batches} batches by itself"
        )
        raise refusal(message, within.module, within.loop, hint="Change their number there by hand.")
    return joined(context)
