"""Removes one element of a list in brackets, such as an argument or an item of a mapping, with its comma."""

from __future__ import annotations

import ast
import tokenize

from skyline.errors import RewriteRefused
from skyline.source.program import Module
from skyline.source.text import SourceText, SourceToken, TextEdit, offsets_of, tokens_of


def without_keyword(module: Module, keyword: ast.keyword) -> tuple[TextEdit, ...]:
    """Removes this argument from a call: the inverse of ``add_keyword``."""
    return without_element(module.source, *offsets_of(module.source, keyword), "()")


def without_item(module: Module, key: ast.expr, value: ast.expr) -> tuple[TextEdit, ...]:
    """Removes this item from a dictionary display."""
    start, _ = offsets_of(module.source, key)
    _, end = offsets_of(module.source, value)
    return without_element(module.source, start, end, "{}")


def without_element(source: SourceText, start: int, end: int, brackets: str) -> tuple[TextEdit, ...]:
    """Removes the element between two offsets from a list, with its line if it has one of its own.

    The other elements keep their lines, their comments and their commas.
    """
    tokens = tokens_of(source)
    before, after = tokens.before(start), tokens.after(end)
    if (
        before is None
        or after is None
        or before.text not in (",", brackets[0])
        or after.text not in (",", brackets[1])
    ):
        message = f"`{source.text[start:end]}` stands in brackets of its own"
        raise RewriteRefused(
            message, file=source.path, line=source.position(start)[0], hint="Remove it there."
        )
    comments = [token for token in tokens.all if token.kind == tokenize.COMMENT]
    commented = any(before.end <= token.start < start for token in comments)
    if after.text == ",":
        return (_deleted(source, *_with_own_comma(source, before, start, after, commented, comments)),)
    return (_deleted(source, *_as_last(source, before, start, end, commented, comments)),)


def _with_own_comma(
    source: SourceText,
    before: SourceToken,
    start: int,
    comma: SourceToken,
    commented: bool,
    comments: list[SourceToken],
) -> tuple[int, int]:
    line_start, _ = _line_of(source, start)
    _, line_end = _line_of(source, comma.end)
    first_on_line = not source.text[line_start:start].strip()
    rest = source.text[comma.end : line_end].strip()
    own_lines = first_on_line and (not rest or rest.startswith("#"))
    if own_lines and (commented or before.text != ","):
        return line_start, _next_line(source, comma.end)
    if own_lines:
        return before.end, line_end
    tight = before.end == start and source.text[comma.end : comma.end + 1] == " "
    following = tokens_of(source).after(comma.end)
    assert following is not None
    # An argument that was added before a spread mapping brought its own blank.
    spread = following.text == "**" and following.start < line_end
    if before.text == "," and not first_on_line and not tight and not spread:
        return before.end, comma.end
    # The next element moves to the place of the removed one.
    in_between = any(comma.end <= token.start < following.start for token in comments)
    return start, comma.end if in_between else following.start


def _as_last(
    source: SourceText,
    before: SourceToken,
    start: int,
    end: int,
    commented: bool,
    comments: list[SourceToken],
) -> tuple[int, int]:
    line_start, line_end = _line_of(source, start)
    if end > line_end:
        _, line_end = _line_of(source, end)
    first_on_line = not source.text[line_start:start].strip()
    own_comment = any(end <= token.start < line_end for token in comments)
    if before.text != ",":
        return start, end
    if commented:
        rest = source.text[end:line_end].strip()
        own_lines = first_on_line and (not rest or own_comment)
        return (line_start, _next_line(source, end)) if own_lines else (start, end)
    comma_line, _ = _line_of(source, before.start)
    if not source.text[comma_line : before.start].strip() and not source.text[end:line_end].strip():
        return comma_line, _next_line(source, end)  # commas are at the starts of lines here
    return before.start, line_end if own_comment and first_on_line else end


def _line_of(source: SourceText, offset: int) -> tuple[int, int]:
    """The start and the end, before the newline, of the line of a place."""
    line, _ = source.position(offset)
    start = source.offset(line, 0)
    return start, start + len(source.line(line))


def _next_line(source: SourceText, offset: int) -> int:
    line, _ = source.position(offset)
    return source.offset(line + 1, 0) if line < source.line_count else len(source.text)


def _deleted(source: SourceText, start: int, end: int) -> TextEdit:
    return source.edit(source.span(start, end), "")
