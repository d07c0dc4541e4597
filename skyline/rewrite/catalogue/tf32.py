"""Lets float32 matrix products use TF32."""

from __future__ import annotations

import ast

from skyline.rewrite.argument import set_literal
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.sites.start import (
    assignments_of,
    at_start,
    calls_of,
    without_assignments,
    without_calls,
)
from skyline.source.arguments import passed
from skyline.source.program import Module
from skyline.source.text import TextEdit, text_of

NAME = "tf32"
_CALL = "torch.set_float32_matmul_precision"
_OLDER = "torch.backends.cuda.matmul.allow_tf32"
_NEWER = "torch.backends.cuda.matmul.fp32_precision"


def snippet(value: str) -> str:
    """One line near the start of the script."""
    return 'torch.set_float32_matmul_precision("high")\n'


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Changes the setting that the script makes already, or adds one line behind its imports."""
    check_switched_on(NAME, value)
    edits: list[TextEdit] = []
    found = False
    for module, call in calls_of(context, _CALL):
        found = True
        given = passed(call, "precision", 0).value
        if given is None:
            raise refusal(f"`{text_of(call)}` is computed when the script runs", module, call)
        if not (isinstance(given, ast.Constant) and given.value in ("high", "medium")):
            edits += set_literal(module, given, "precision", '"high"')
    for name, text in ((_OLDER, "True"), (_NEWER, '"tf32"')):
        for module, statement in assignments_of(context, name):
            found = True
            edits += set_literal(module, statement.value, name, text)
    return tuple(edits) if found else at_start(context, _CALL, '{}("high")')


def present(context: RewriteContext) -> str | None:
    """``on`` if the script allows TF32."""
    return "on" if _allowing_calls(context) or _allowing_assignments(context) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the statements that allow it: float32 products are exact by default."""
    edits = list(without_calls(_allowing_calls(context), '"highest"'))
    for name, text in ((_OLDER, "False"), (_NEWER, '"ieee"')):
        allowing = {id(statement) for _, statement in _allowing_assignments(context)}
        edits += without_assignments(
            [pair for pair in assignments_of(context, name) if id(pair[1]) in allowing], text
        )
    return tuple(edits)


def _allowing_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    return [
        (module, call)
        for module, call in calls_of(context, _CALL)
        if isinstance(given := passed(call, "precision", 0).value, ast.Constant)
        and given.value in ("high", "medium")
    ]


def _allowing_assignments(context: RewriteContext) -> list[tuple[Module, ast.Assign]]:
    return [
        (module, statement)
        for name, on in ((_OLDER, True), (_NEWER, "tf32"))
        for module, statement in assignments_of(context, name)
        if isinstance(statement.value, ast.Constant) and statement.value.value == on
    ]
