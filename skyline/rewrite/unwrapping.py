"""Removes a block around statements, or a call around its argument: the inverse of wrapping."""

from __future__ import annotations

import ast
import tokenize

from skyline.rewrite.blocks import remove
from skyline.rewrite.context import refusal
from skyline.source.program import Module
from skyline.source.text import Function, SourceToken, TextEdit, offsets_of, text_of, tokens_of

_ATOMS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant),
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp),
)
"""Expressions that keep their meaning anywhere without brackets."""


def unwrap(module: Module, block: ast.With | ast.For) -> tuple[TextEdit, ...]:
    """Moves the statements of a block one level out, and removes its header.

    All lines are moved by deletions at their starts; lines that begin inside a string stay as they are.
    """
    source, first, last = module.source, block.body[0], block.body[-1]
    start, _ = offsets_of(source, block)
    line, column = source.position(start)
    indent = source.line(line)[:column]
    begin, _ = offsets_of(source, _decorated(first))
    tokens = tokens_of(source)
    if isinstance(first, Function | ast.ClassDef) and first.decorator_list:
        at = tokens.before(begin)
        assert at is not None
        begin = at.start
    body_line, body_column = source.position(begin)
    if body_line == line or not tokens.starts_logical_line(begin):
        return (source.edit(source.span(start, begin), ""),)
    inner = source.line(body_line)[:body_column]
    unit = inner[len(indent) :]
    below = _below_header(module, block)
    # Comments between the header and the first statement stay, and move with the statements.
    header_line, _ = source.position(below)
    edits = [source.edit(source.span(source.offset(line, 0), below), "")]
    in_string = tokens.in_string()
    end_line, _ = source.position(offsets_of(source, last)[1])
    for number in range(header_line, _last_comment(module, end_line, inner) + 1):
        text = source.line(number)
        if number in in_string or not text.strip():
            continue
        # A line in brackets, or a comment, may be indented less than the statements.
        at = len(indent) if text.startswith(inner) else 0
        if text.startswith(unit, at):
            place = source.offset(number, at)
            edits.append(source.edit(source.span(place, place + len(unit)), ""))
    return tuple(edits)


def without_call(module: Module, call: ast.Call, given: ast.expr) -> tuple[TextEdit, ...]:
    """Replaces the call by its argument: ``f(x, a=1)`` becomes ``x``."""
    source = module.source
    start, end = offsets_of(source, call)
    first, last = offsets_of(source, given)
    if any(token.kind == tokenize.COMMENT for token in _between(module, start, first)) or any(
        token.kind == tokenize.COMMENT for token in _between(module, last, end)
    ):
        raise refusal(f"`{text_of(call)}` has a comment inside", module, call, hint="Remove it there.")
    parent = module.parents.get(call)
    plain = isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr | ast.keyword)
    plain = plain or (isinstance(parent, ast.Call) and call is not parent.func)
    several_lines = plain and len(source.text[first:last].splitlines()) > 1 and not isinstance(given, _ATOMS)
    bracketed = not isinstance(given, _ATOMS) and (not plain or several_lines)
    opening, closing = ("(", ")") if bracketed else ("", "")
    return (
        source.edit(source.span(start, first), opening),
        source.edit(source.span(last, end), closing),
    )


def without_decorator(module: Module, decorator: ast.expr) -> tuple[TextEdit, ...]:
    """Removes one of the decorators of a function or class, with its line."""
    source = module.source
    start, end = offsets_of(source, decorator)
    first = source.position(start)[0]
    last = source.position(tokens_of(source).ends_logical_line(end))[0]
    after = source.offset(last + 1, 0) if last < source.line_count else len(source.text)
    return (source.edit(source.span(source.offset(first, 0), after), ""),)


def without_item(module: Module, block: ast.With, item: ast.withitem) -> tuple[TextEdit, ...]:
    """Removes one item of a ``with``, or the block's header if it has no other items."""
    if item.optional_vars is not None:
        message = f"`{text_of(item.optional_vars)}` names what `with {text_of(item.context_expr)}` gives"
        raise refusal(message, module, block, hint="Remove it there.")
    if len(block.items) == 1:
        return unwrap(module, block)
    source, at = module.source, block.items.index(item)
    start, end = offsets_of(source, item.context_expr)
    if at + 1 < len(block.items):
        following, _ = offsets_of(source, block.items[at + 1].context_expr)
        span = source.span(start, following)
    else:
        before = block.items[at - 1]
        _, place = offsets_of(source, before.optional_vars or before.context_expr)
        span = source.span(place, end)
    edit = source.edit(span, "")
    if "#" in edit.old_text or "(" in edit.old_text.replace(source.text[start:end], ""):
        message = f"`with {text_of(item.context_expr)}` stands among others in a way that is not plain"
        raise refusal(message, module, block, hint="Remove it there.")
    return (edit,)


def without_statements(module: Module, statements: list[ast.stmt]) -> tuple[TextEdit, ...]:
    """Removes statements of any blocks; statements of one block are removed together."""
    groups: dict[int, list[ast.stmt]] = {}
    for statement in statements:
        groups.setdefault(id(module.parents.get(statement)), []).append(statement)
    return tuple(edit for group in groups.values() for edit in _by_suite(module, group))


def _by_suite(module: Module, statements: list[ast.stmt]) -> tuple[TextEdit, ...]:
    parent = module.parents.get(statements[0])
    edits: list[TextEdit] = []
    for name in ("body", "orelse", "finalbody", "handlers"):
        suite: object = getattr(parent, name, [])
        held = [each for each in statements if isinstance(suite, list) and each in suite]
        if held:
            edits += remove(module, *held)
    return tuple(edits)


def _decorated(statement: ast.stmt) -> ast.stmt | ast.expr:
    if isinstance(statement, Function | ast.ClassDef) and statement.decorator_list:
        return statement.decorator_list[0]
    return statement


def _below_header(module: Module, block: ast.With | ast.For) -> int:
    """The start of the line below the header."""
    source = module.source
    end = tokens_of(source).ends_logical_line(_behind_header(module, block))
    return source.offset(source.position(end)[0] + 1, 0)


def _behind_header(module: Module, block: ast.With | ast.For) -> int:
    last: ast.expr = (
        block.iter
        if isinstance(block, ast.For)
        else block.items[-1].optional_vars or block.items[-1].context_expr
    )
    return offsets_of(module.source, last)[1]


def _last_comment(module: Module, line: int, inner: str) -> int:
    """The last line of the comments below a block that have the indentation of its statements."""
    source, last = module.source, line
    for number in range(line + 1, source.line_count + 1):
        text = source.line(number)
        if text.strip() and not (text.startswith(inner) and text.lstrip().startswith("#")):
            break
        last = number if text.strip() else last
    return last


def _between(module: Module, start: int, end: int) -> list[SourceToken]:
    return [token for token in tokens_of(module.source).all if start <= token.start < end]
