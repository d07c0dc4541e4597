"""Pins the batches and moves them to the device without waiting; the loader and the moves change together."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import (
    as_value,
    keyword_of,
    literal_given,
    set_argument,
    set_literal,
    without_argument,
)
from skyline.rewrite.catalogue.num_workers import training_loader
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.sites.given import behind, decided_by
from skyline.rewrite.sites.transfer import TransferSite, transfers
from skyline.source.program import Module
from skyline.source.text import TextEdit, text_of

NAME = "pin_memory"
ORDER = 60
"""After ``num_workers``."""
_POSITION = 7
_SNIPPET = """\
loader = DataLoader(..., pin_memory=True)
for inputs, targets in loader:
    inputs = inputs.to(device, non_blocking=True)
    targets = targets.to(device, non_blocking=True)
"""


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds ``pin_memory=True`` to the loader and ``non_blocking=True`` to the moves of its batches."""
    try:
        module, call = training_loader(context)
        moves = transfers(context)
        if not moves:
            raise refusal("No move of the batch to a device was found in the training loop", module, call)
        edits = [*_pinned(context, module, call)]
        for move in moves:
            edits += _without_waiting(context, move)
    except RewriteRefused as refused:
        if refused.snippet:
            raise
        raise RewriteRefused(
            refused.message, hint=refused.hint, file=refused.file, line=refused.line, snippet=_SNIPPET
        ) from refused
    return tuple(edits)


def _pinned(context: RewriteContext, module: Module, call: ast.Call) -> tuple[TextEdit, ...]:
    delivered = max(context.profile.loaders, key=lambda one: one.fetches_per_iteration, default=None)
    if delivered is not None and delivered.pin_memory:
        return ()
    literal = decided_by(context, module, call, NAME, _POSITION)
    if literal is None:
        return set_argument(context, module, call, NAME, "True", position=_POSITION)
    where, node = literal
    return set_literal(where, node, NAME, "True")


def _without_waiting(context: RewriteContext, move: TransferSite) -> tuple[TextEdit, ...]:
    """Sets ``non_blocking``: the second argument of ``.cuda``, by name only in ``.to``, as its place varies."""
    module, call = move.region.module, move.call
    cuda = isinstance(call.func, ast.Attribute) and call.func.attr == "cuda"
    if not cuda and keyword_of(call, "non_blocking") is None and len(call.args) > 2:
        raise refusal(f"`{text_of(call)}` may already set `non_blocking`", module, call)
    return set_argument(context, module, call, "non_blocking", "True", position=1 if cuda else None)


def present(context: RewriteContext) -> str | None:
    """``on`` if the training's loader pins its batches."""
    module, call = training_loader(context)
    pinned = as_value(literal_given(context, module, call, NAME, _POSITION))
    if (
        pinned is None
        and behind(context, module, call, NAME, _POSITION) is not None
        and context.as_profiled()
    ):
        delivered = max(context.profile.loaders, key=lambda one: one.fetches_per_iteration, default=None)
        return "on" if delivered is not None and delivered.pin_memory else None
    return pinned


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes ``pin_memory`` from the loader, and ``non_blocking=True`` from the moves of its batches."""
    module, call = training_loader(context)
    edits = list(without_argument(context, module, call, NAME, off="False", position=_POSITION))
    for move in transfers(context):
        given = keyword_of(move.call, "non_blocking")
        if given is not None and isinstance(given.value, ast.Constant) and given.value.value is True:
            edits += without_keyword(move.region.module, given)
    return tuple(edits)
