"""The argument of a call that a change is about: what it is given now, and the call without it."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_literal
from skyline.rewrite.blocks import remove, statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.element import without_item, without_keyword
from skyline.rewrite.keyword import keyword_of
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.given import behind, decided_by, mapping_items
from skyline.source.arguments import passed
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import text_of

_NAMES = (ast.Name, ast.Attribute, ast.Subscript)


def literal_given(
    context: RewriteContext, module: Module, call: ast.Call, name: str, position: int | None = None
) -> object:
    """The literal that decides an argument; None where it is not given, or is no literal."""
    try:
        found = decided_by(context, module, call, name, position)
    except RewriteRefused:
        return None
    return found[1].value if found is not None and isinstance(found[1], ast.Constant) else None


def as_value(literal: object) -> str | None:
    """A literal as the value of a what-if: ``on`` for a switch, None for what is off."""
    if literal is True:
        return "on"
    if literal is None or literal is False:
        return None
    return str(literal)


def without_argument(
    context: RewriteContext,
    module: Module,
    call: ast.Call,
    name: str,
    *,
    off: str,
    position: int | None = None,
) -> tuple[TextEdit, ...]:
    """A call without an argument; where a variable or an option decides it, that one literal becomes ``off``.

    Raises:
        RewriteRefused: what decides it is shared with others, computed, or on the command line.
    """
    keyword = keyword_of(call, name)
    if keyword is not None and not isinstance(keyword.value, _NAMES):
        return without_keyword(module, keyword)
    given = passed(call, name, position).value
    if given is None:
        items = mapping_items(module, name)
        if len(items) == 1 and behind(context, module, call, name, position) is not None:
            return _without_mapping_item(module, *items[0])
    try:
        decided = decided_by(context, module, call, name, position)
    except RewriteRefused as refused:
        if not refused.hint:
            refused.hint = f"Make it {off} there."
        raise
    if decided is None:
        message = f"`{text_of(call.func)}` is not given `{name}`"
        raise refusal(message, module, call, hint="There is nothing to take out.")
    return set_literal(*decided, name, off)


def _without_mapping_item(
    module: Module, holder: ast.Dict | ast.Call | ast.Subscript, key: ast.expr | None, value: ast.expr
) -> tuple[TextEdit, ...]:
    if isinstance(holder, ast.Dict):
        assert key is not None
        return without_item(module, key, value)
    if isinstance(holder, ast.Call):
        keyword = next(each for each in holder.keywords if each.value is value)
        return without_keyword(module, keyword)
    return remove(module, statement_of(module, holder))
