"""Lets float32 matrix products use TF32."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_literal
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.start import assignments_of, at_start, calls_of
from skyline.rewrite.value import check_switched_on
from skyline.source.arguments import passed
from skyline.source.edit import TextEdit
from skyline.source.syntax import text_of

NAME = "tf32"
_CALL = "torch.set_float32_matmul_precision"
_OLDER = "torch.backends.cuda.matmul.allow_tf32"
_NEWER = "torch.backends.cuda.matmul.fp32_precision"


def snippet(value: str) -> str:
    """One line near the start of the script."""
    return 'torch.set_float32_matmul_precision("high")\n'


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """The setting that the script makes already, changed, or else one more line behind its imports."""
    check_switched_on(NAME, value)
    edits: list[TextEdit] = []
    found = False
    for module, call in calls_of(context, _CALL):
        found = True
        given = passed(call, "precision", 0).value
        if given is None:
            message = f"`{text_of(call)}` is decided when the script runs"
            raise RewriteRefused(message, file=module.path, line=call.lineno)
        if not (isinstance(given, ast.Constant) and given.value in ("high", "medium")):
            edits += set_literal(module, given, "precision", '"high"')
    for name, text in ((_OLDER, "True"), (_NEWER, '"tf32"')):
        for module, statement in assignments_of(context, name):
            found = True
            edits += set_literal(module, statement.value, name, text)
    return tuple(edits) if found else at_start(context, _CALL, '{}("high")')
