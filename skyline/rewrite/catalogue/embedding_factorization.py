"""Puts a linear layer behind embeddings: ``nn.Sequential(nn.Embedding(n, k), nn.Linear(k, d, bias=False))``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import inserted, replace
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.factored import (
    BY_HAND,
    Pair,
    argument,
    between_written,
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
from skyline.whatif.catalogue.models.embedding_factorization import factored_tables

NAME = "embedding_factorization"
_LAYER = "Embedding"
_WEIGHT_PLACE = 7
_DEVICE_PLACE = 9
"""The places of ``_weight`` and ``device`` among the arguments of ``nn.Embedding``."""


def snippet(value: str) -> str:
    """The two layers, and for bags a note on a module that passes on offsets."""
    between = value or "between"
    return (
        f"nn.Sequential(nn.Embedding(rows, {between}), nn.Linear({between}, width, bias=False))\n"
        "# nn.EmbeddingBag takes more than one argument: a module of your own calls it, then the nn.Linear.\n"
    )


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The effect on saved weights, and the way back to one table after training."""
    return (
        "Weights that were saved before do not fit: each of these tables has a linear layer behind it now.",
        "After training one table gives the same rows: nn.Embedding.from_pretrained(e[0].weight @ e[1].weight.T).",
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Replaces each table by a smaller one and a linear layer; refused if anything needs the single weight."""
    between = whole_number(NAME, value)
    layers = [layer.module for layer in factored_tables(context.profile, between)]
    if not layers:
        message = f"No embedding is known to gain from dimension {between}"
        raise RewriteRefused(message, file=context.profile.script)
    bag = next((layer for layer in layers if layer.class_name != _LAYER), None)
    if bag is not None:
        message = f"`{bag.path}` takes offsets as well as indices, which nn.Sequential does not pass on"
        raise RewriteRefused(message, file=context.profile.script, hint=BY_HAND, snippet=snippet(value))
    made = made_by(context, layers, _between)
    check_replaceable(context, layers, made.calls, _LAYER)
    edits = [edit for module, call in made.calls for edit in _factored(module, call, between)]
    for pair in made.pairs:
        for half in (_width(pair.first), passed(pair.second, "in_features", 0).value):
            edits += replace(pair.module, half, str(between)) if half is not None else ()
    return tuple(edits)


def _factored(module: Module, call: ast.Call, between: int) -> tuple[TextEdit, ...]:
    width = argument(module, call, "embedding_dim", 1)
    weight = passed(call, "_weight", _WEIGHT_PLACE).value
    if weight is not None:
        raise refusal(f"`{text_of(call)}` is given its weight", module, call, hint=BY_HAND)
    container, linear = (usable(module, f"torch.nn.{name}", call) for name in ("Sequential", "Linear"))
    start, end = offsets_of(module.source, call)
    behind = (
        f", {linear.text}({between}, {written(module.source, width)}, bias=False"
        f"{placed_alike(module, call, _DEVICE_PLACE)}))"
    )
    return (
        *dict.fromkeys((*container.edits, *linear.edits)),
        inserted(module, start, f"{container.text}("),
        *replace(module, width, str(between)),
        inserted(module, end, behind),
    )


def present(context: RewriteContext) -> str | None:
    """The width of the first such table."""
    return between_written(context, _between)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Replaces each pair of layers by one table; refused if the code takes one out of its container."""
    return joined(context, _between, _joined)


def _joined(pair: Pair) -> tuple[TextEdit, ...]:
    source = pair.module.source
    (start, end), (first, last) = offsets_of(source, pair.whole), offsets_of(source, pair.first)
    between, width = _width(pair.first), passed(pair.second, "out_features", 1).value
    assert between is not None
    assert width is not None
    return (
        deleted(pair.module, start, first),
        *replace(pair.module, between, written(pair.module.source, width)),
        deleted(pair.module, last, end),
    )


def _between(module: Module, first: ast.Call, second: ast.Call) -> int | None:
    """The width between an embedding and a linear layer without a bias or other options of its own."""
    if layer_class(module, first.func) != _LAYER or layer_class(module, second.func) != "Linear":
        return None
    between = whole_literal(_width(first))
    if between is None or not is_plain_linear(second):
        return None
    if passed(second, "out_features", 1).value is None:
        return None
    return between if whole_literal(passed(second, "in_features", 0).value) == between else None


def _width(call: ast.Call) -> ast.expr | None:
    return passed(call, "embedding_dim", 1).value
