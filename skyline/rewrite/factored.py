"""A layer that is written as two in an ``nn.Sequential``: finds the calls that make it, and joins them again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.layers import layer_class
from skyline.source.arguments import calls_at, passed
from skyline.source.program import Module
from skyline.source.text import TextEdit, last_name, offsets_of, text_of, tokens_of, written
from skyline.trace.facts import ModuleFact

BY_HAND = "Make the change by hand."
_SIZES = {"Linear": ("in_features", "out_features"), "Embedding": ("num_embeddings", "embedding_dim")}
_OF_LINEAR = {"in_features", "out_features", "bias", "device", "dtype"}


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """``nn.Sequential(first, second)``; ``between`` is the width between the two layers."""

    module: Module
    whole: ast.Call
    first: ast.Call
    second: ast.Call
    between: int


Reader = Callable[[Module, ast.Call, ast.Call], int | None]
"""Gives the width between the two layers of a pair. None if the two calls are no such pair."""


def written_pairs(context: RewriteContext, read: Reader) -> list[Pair]:
    """The pairs in the code, in the order of the files."""
    found: list[Pair] = []
    for module, call in context.program.nodes_of(ast.Call):
        if layer_class(module, call.func) != "Sequential" or call.keywords:
            continue
        match call.args:
            case [ast.Call() as first, ast.Call() as second]:
                between = read(module, first, second)
                if between is not None:
                    found.append(Pair(module, call, first, second, between))
            case _:
                continue
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The calls that make some layers: plain calls, and calls that are written as pairs already."""

    calls: tuple[tuple[Module, ast.Call], ...]
    pairs: tuple[Pair, ...]


def made_by(context: RewriteContext, layers: Sequence[ModuleFact], read: Reader) -> Made:
    """The calls that make these layers, all of one class.

    Raises RewriteRefused if a call cannot be found, or also makes other layers.
    """
    pairs = written_pairs(context, read)
    halves = {id(call): pair for pair in pairs for call in (pair.first, pair.second)}
    lines_known = any(module.created_line is not None for module in context.profile.modules)
    plain: dict[int, tuple[Module, ast.Call]] = {}
    done: dict[int, Pair] = {}
    for layer in layers:
        if layer.created_line is None and lines_known:
            message = f"A library makes `{layer.path}`, or it is a copy: no line of the program makes it"
            raise RewriteRefused(message, file=context.profile.script, hint=BY_HAND)
        for module, call in _calls(context, layer, halves):
            pair = halves.get(id(call))
            if pair is not None:
                done[id(pair.whole)] = pair
            else:
                plain[id(call)] = module, call
        _check_no_others(context, layer, layers)
    return Made(tuple(plain.values()), tuple(done.values()))


def _calls(
    context: RewriteContext, layer: ModuleFact, halves: dict[int, Pair]
) -> list[tuple[Module, ast.Call]]:
    """All calls on the line that made a layer, without those that write other sizes.

    Without a line, it is the only such call of the program.
    """
    name = layer.class_name
    if layer.created_line is not None:
        module, line = context.place(layer.created_line)
        found = calls_at(module, line, lambda callee: layer_class(module, callee) == name)
        if not found:
            message = f"Line {line} does not construct torch.nn.{name} by name"
            raise RewriteRefused(message, file=module.path, line=line, hint=BY_HAND)
        fitting = [call for call in found if id(call) in halves or _has_sizes_of(layer, call)]
        return [(module, call) for call in fitting or found]
    every = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if layer_class(module, call.func) == name
    ]
    distinct = {id(halves[id(call)].whole) if id(call) in halves else id(call) for _, call in every}
    if len(distinct) != 1:
        count = "No call" if not distinct else "More than one call"
        message = (
            f"{count} of the program makes a torch.nn.{name}: the one that makes `{layer.path}` is not known"
        )
        raise RewriteRefused(message, file=context.profile.script, hint=BY_HAND)
    return every


def _has_sizes_of(layer: ModuleFact, call: ast.Call) -> bool:
    """False if the call writes a number as a size, and the layer has another size."""
    for position, name in enumerate(_SIZES.get(layer.class_name, ())):
        wanted, written_size = layer.options.get(name), whole_literal(passed(call, name, position).value)
        if wanted is not None and written_size is not None and written_size != wanted:
            return False
    return True


def _check_no_others(context: RewriteContext, layer: ModuleFact, layers: Sequence[ModuleFact]) -> None:
    chosen = {one.path for one in layers}
    for other in context.profile.modules:
        alike = other.class_name == layer.class_name and other.created_line == layer.created_line
        if alike and other.library and other.path not in chosen:
            message = f"The code that makes `{layer.path}` also makes `{other.path}`, which stays one layer"
            place = layer.created_line
            raise RewriteRefused(
                message,
                file=place.file if place else context.profile.script,
                line=place.line if place else 0,
                hint="Ask for another size that all of them gain by, or make the change by hand.",
            )


def argument(module: Module, call: ast.Call, name: str, position: int) -> ast.expr:
    """An argument that is written in the call.

    Raises RewriteRefused if it is not, or if arguments are spread into the call.
    """
    spread = [*(each for each in call.args if isinstance(each, ast.Starred))]
    if spread or any(keyword.arg is None for keyword in call.keywords):
        message = f"`{text_of(call)}` is given arguments that the code does not show"
        raise refusal(message, module, call, hint=BY_HAND)
    given = passed(call, name, position).value
    if given is None:
        raise refusal(f"`{name}` is not written in `{text_of(call)}`", module, call, hint=BY_HAND)
    return given


def is_plain_linear(call: ast.Call) -> bool:
    """True for a call of ``nn.Linear`` without a bias and without other options of its own."""
    bias = passed(call, "bias", 2).value
    known = len(call.args) <= 2 and {keyword.arg for keyword in call.keywords} <= _OF_LINEAR
    return known and isinstance(bias, ast.Constant) and bias.value is False


def whole_literal(node: ast.expr | None) -> int | None:
    """The value of a literal whole number; None for anything else."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case _:
            return None


def placed_alike(module: Module, call: ast.Call, position: int) -> str:
    """The device and dtype arguments of a call, for a second layer; ``position`` is the place of ``device``."""
    given = ((name, passed(call, name, position + at).value) for at, name in enumerate(("device", "dtype")))
    return "".join(f", {name}={written(module.source, value)}" for name, value in given if value is not None)


def comma_after(module: Module, node: ast.expr | ast.keyword) -> int:
    """The offset of the comma behind an argument."""
    tokens = tokens_of(module.source)
    token = tokens.after(offsets_of(module.source, node)[1])
    while token is not None and token.text == ")":
        token = tokens.after(token.end)
    if token is None or token.text != ",":
        message = f"`{text_of(node)}` has no further argument after it"
        raise RewriteRefused(message, file=module.path, hint=BY_HAND)
    return token.start


def deleted(module: Module, start: int, end: int) -> TextEdit:
    """The edit that deletes text."""
    return module.source.edit(module.source.span(start, end), "")


def between_written(context: RewriteContext, read: Reader) -> str | None:
    """The width between the layers of the first pair."""
    return next((str(pair.between) for pair in written_pairs(context, read)), None)


def joined(
    context: RewriteContext, read: Reader, join: Callable[[Pair], tuple[TextEdit, ...]]
) -> tuple[TextEdit, ...]:
    """Replaces each pair by one layer; refused if the code takes one of them out of its container."""
    edits: list[TextEdit] = []
    for pair in written_pairs(context, read):
        _check_not_indexed(context, pair)
        edits += join(pair)
    return tuple(edits)


def _check_not_indexed(context: RewriteContext, pair: Pair) -> None:
    around = pair.module.parents[pair.whole]
    targets = around.targets if isinstance(around, ast.Assign) else []
    names = {last_name(target) for target in targets} - {""}
    for module, node in context.program.nodes_of(ast.Subscript):
        if last_name(node.value) in names:
            message = f"`{text_of(node)}` takes one of the two layers that would become one"
            raise refusal(message, module, node, hint=BY_HAND)
