"""Splits linear layers: ``nn.Sequential(nn.Linear(a, r, bias=False), nn.Linear(r, b))``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import keyword_of
from skyline.rewrite.blocks import inserted, replace
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.factored import (
    BY_HAND,
    Pair,
    argument,
    between_written,
    comma_after,
    deleted,
    is_plain_linear,
    joined,
    made_by,
    placed_alike,
    whole_literal,
)
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.layer_uses import check_replaceable
from skyline.rewrite.sites.layers import layer_class
from skyline.source.arguments import passed
from skyline.source.program import Module
from skyline.source.text import TextEdit, offsets_of, text_of, written
from skyline.whatif.catalogue.models.low_rank import split_layers

NAME = "low_rank"
_LAYER = "Linear"
_DEVICE_PLACE = 3
"""The place of ``device`` among the arguments of ``nn.Linear``."""


def snippet(value: str) -> str:
    """The two layers."""
    rank = value or "rank"
    return f"nn.Sequential(nn.Linear(inputs, {rank}, bias=False), nn.Linear({rank}, outputs))\n"


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The effect on saved weights."""
    return ("Weights that were saved before do not fit: each of these layers has two weights now.",)


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Splits each layer that gets fewer parameters by it; refused if anything needs the single weight."""
    rank = whole_number(NAME, value)
    layers = [layer.module for layer in split_layers(context.profile, rank)]
    if not layers:
        message = f"No linear layer is known to have fewer parameters with rank {rank}"
        raise RewriteRefused(message, file=context.profile.script)
    made = made_by(context, layers, _between)
    check_replaceable(context, layers, made.calls, _LAYER)
    edits = [edit for module, call in made.calls for edit in _split(module, call, rank)]
    for pair in made.pairs:
        for half in (_out(pair.first), _in(pair.second)):
            edits += replace(pair.module, half, str(rank)) if half is not None else ()
    return tuple(edits)


def _split(module: Module, call: ast.Call, rank: int) -> tuple[TextEdit, ...]:
    inputs = argument(module, call, "in_features", 0)
    argument(module, call, "out_features", 1)
    named = keyword_of(call, "in_features")
    if not _leads(call):
        raise refusal(
            f"`in_features` is not the first argument of `{text_of(call)}`", module, call, hint=BY_HAND
        )
    container = usable(module, "torch.nn.Sequential", call)
    start, end = offsets_of(module.source, call)
    first, second = ("out_features=", "in_features=") if named is not None else ("", "")
    between = (
        f", {first}{rank}, bias=False{placed_alike(module, call, _DEVICE_PLACE)}), "
        f"{written(module.source, call.func)}({second}{rank}"
    )
    return (
        *container.edits,
        inserted(module, start, f"{container.text}("),
        inserted(module, comma_after(module, inputs), between),
        inserted(module, end, ")"),
    )


def present(context: RewriteContext) -> str | None:
    """The rank of the first layer that is written as two."""
    return between_written(context, _between)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Replaces each pair of layers by one; refused if the code takes one of them out of its container."""
    return joined(context, _between, _joined)


def _joined(pair: Pair) -> tuple[TextEdit, ...]:
    source = pair.module.source
    start, end = offsets_of(source, pair.whole)
    first, last = offsets_of(source, pair.first)[0], offsets_of(source, pair.second)[1]
    inputs, middle = (_first_argument(one) for one in (pair.first, pair.second))
    return (
        deleted(pair.module, start, first),
        deleted(pair.module, comma_after(pair.module, inputs), comma_after(pair.module, middle)),
        deleted(pair.module, last, end),
    )


def _between(module: Module, first: ast.Call, second: ast.Call) -> int | None:
    """The rank of two linear layers, if the first adds no bias and has no other options of its own."""
    if layer_class(module, first.func) != _LAYER or layer_class(module, second.func) != _LAYER:
        return None
    rank = whole_literal(_out(first))
    if rank is None or not is_plain_linear(first):
        return None
    if any(keyword.arg is None for keyword in second.keywords) or _out(second) is None:
        return None
    leading = _leads(first) and _leads(second)
    return rank if leading and whole_literal(_in(second)) == rank else None


def _in(call: ast.Call) -> ast.expr | None:
    return passed(call, "in_features", 0).value


def _out(call: ast.Call) -> ast.expr | None:
    return passed(call, "out_features", 1).value


def _leads(call: ast.Call) -> bool:
    """True if the number of inputs is the first argument."""
    return bool(call.args) or call.keywords[0].arg == "in_features"


def _first_argument(call: ast.Call) -> ast.expr:
    return call.args[0] if call.args else call.keywords[0].value
