"""The number of batches that a script accumulates: smaller batches need more of them in proportion."""

from __future__ import annotations

import ast
from functools import partial

from skyline.errors import RewriteRefused
from skyline.rewrite.catalogue import batch_size
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.configured import (
    check_not_forced,
    configured_place,
    literal_edit,
    named_literal,
    place_edit,
)
from skyline.rewrite.sites.iteration import framework
from skyline.source.resolver import Origin
from skyline.source.setting_names import Setting, rank
from skyline.source.text import TextEdit, last_name

_SETTING = Setting.GRAD_ACCUMULATION


def accumulated_setting(context: RewriteContext, parts: int) -> tuple[TextEdit, ...] | None:
    """The edits if a setting gives the number of accumulated batches. None without such a setting.

    The batch is divided by ``parts`` and the setting multiplied by it, so an optimizer step sees the same
    samples. Raises RewriteRefused if one of the two cannot be changed.
    """
    count = context.profile.batch.micro_batches
    place = configured_place(context, _SETTING)
    if place is None:
        check_not_forced(_SETTING, context.profile.arguments, count * parts)
    literal = _literal(context, count) if place is None else None
    if (place is None and literal is None) or not _averages(context):
        return None
    size = context.profile.batch_size
    if size is None or size % parts:
        message = (
            f"A batch of {size} samples cannot be split into {parts} equal parts"
            if size
            else "The batch size is not known"
        )
        raise RewriteRefused(message, hint="Give a number that divides the batch size.")

    def accumulated(now: RewriteContext) -> tuple[TextEdit, ...]:
        if place is not None:
            return place_edit(now, _SETTING, place, count * parts)
        found = named_literal(now, _SETTING, count)
        return literal_edit(found, count * parts) if found is not None else ()

    return context.in_turn((accumulated, partial(batch_size.rewrite, value=str(size // parts))))


def _literal(context: RewriteContext, count: int) -> Origin | None:
    try:
        return named_literal(context, _SETTING, count)
    except RewriteRefused:
        if count > 1:
            raise
        return None  # nothing is accumulated: the loop can be changed instead


def _averages(context: RewriteContext) -> bool:
    """True if gradients are averaged over the batches, by a framework or by a division of the loss."""
    used = framework(context)
    if used is not None and used.kind != "fabric":
        return True
    divisors = (
        *(node.right for _, node in context.program.nodes_of(ast.BinOp) if isinstance(node.op, ast.Div)),
        *(node.value for _, node in context.program.nodes_of(ast.AugAssign) if isinstance(node.op, ast.Div)),
    )
    return any(rank(_SETTING, (_name(divisor),)) is not None for divisor in divisors)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return last_name(node)
