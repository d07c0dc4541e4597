"""A batch that is taken through the model in parts, made one again: what the loop over parts was written around."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from skyline.rewrite.blocks import replace
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.backward import backwards
from skyline.rewrite.sites.iteration import iteration
from skyline.rewrite.unwrapping import unwrap, without_statements
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import last_name, text_of


@dataclass(frozen=True, slots=True, eq=False)
class PartsLoop:
    """``for x_part, y_part in zip(x.chunk(4), y.chunk(4)):`` around a backward pass.

    ``names`` are the batch's names by those of its parts; ``number`` is how many parts there are.
    """

    module: Module
    loop: ast.For
    names: dict[str, str]
    number: int


def parts_loop(context: RewriteContext) -> PartsLoop | None:
    """The loop over parts of the batch, None without one."""
    for site in backwards(context, iteration(context)):
        module = site.region.module
        for around in module.around(site.statement):
            if isinstance(around, ast.For) and (found := _read(module, around)) is not None:
                return found
    return None


def joined(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The statements of the loop on the whole batch, without the loop."""
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
    """The loop with the whole batch in it, without the weight of each part."""
    found = parts_loop(context)
    assert found is not None
    module, loop = found.module, found.loop
    gone: list[ast.stmt] = []
    edits: list[TextEdit] = []
    body = list(loop.body)
    total = _total(body[-1])
    if total is not None:
        gone.append(body.pop())
        gone += _around(module, loop, *total)
    weighing = _weighing(found, body[-1])
    if weighing is None:
        message = f"The loop over `{text_of(loop.iter)}` is not one that Skyline wrote"
        hint = "Take the loop out by hand: the statements in it on the whole batch, with the loss as it is."
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
    """``part_loss = loss * (len(x_part) / len(x))``, and where the backward pass is given that."""

    statement: ast.Assign
    loss: str
    given: ast.Name


def _weighing(found: PartsLoop, last: ast.stmt) -> _Weighing | None:
    """The statement that weighs the loss, where its result goes into the backward pass and nowhere else."""
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
    """Of ``whole_loss += loss.detach() * …`` the names of the sum and of the loss."""
    match statement:
        case ast.AugAssign(
            target=ast.Name(id=whole),
            op=ast.Add(),
            value=ast.BinOp(left=ast.Call(func=ast.Attribute(value=loss, attr="detach")), op=ast.Mult()),
        ):
            return whole, ast.unparse(loss)
        case _:
            return None


def _around(module: Module, loop: ast.For, whole: str, loss: str) -> list[ast.stmt]:
    """``whole_loss = 0.0`` before the loop, and ``loss = whole_loss`` behind it."""
    parent = module.parents.get(loop)
    suite: list[ast.stmt] = next(
        each for name in ("body", "orelse", "finalbody") if loop in (each := getattr(parent, name, []))
    )
    at = suite.index(loop)
    before = [each for each in suite[:at] if ast.unparse(each) == f"{whole} = 0.0"][-1:]
    behind = [each for each in suite[at + 1 : at + 2] if ast.unparse(each) == f"{loss} = {whole}"]
    if not before or not behind:
        message = f"`{whole}` is summed up over the parts in another way than Skyline writes"
        raise refusal(message, module, loop, hint="Take the loop out by hand.")
    return [*before, *behind]


def _is_weight(weight: ast.expr, found: PartsLoop) -> bool:
    """``len(x_part) / len(x)``, of one of the names of the batch."""
    return any(ast.unparse(weight) == f"len({part}) / len({whole})" for part, whole in found.names.items())
