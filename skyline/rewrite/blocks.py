"""Edits of statements: inserts, wraps and removes them, in the layout of the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import refusal
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, Tokens, offsets_of, tokens_of

_INDENT = re.compile(r"[ \t\f]*")
_USUAL_UNIT = "    "


@dataclass(frozen=True, slots=True)
class _Place:
    """The layout of a statement in its file; ``own_line`` is True if its logical line starts with it."""

    start: int
    end: int
    own_line: bool
    indent: str
    """The indentation of the statement's suite, also if the suite is on the line of its header."""


def suite_of(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the block that a statement is in."""
    parent = module.parents[statement]
    if _is_elif(module, statement):
        raise refusal("An `elif` is part of the `if` above it", module, statement)
    for name in ("body", "orelse", "finalbody"):
        suite: list[ast.stmt] | ast.expr = getattr(parent, name, [])  # the body of a lambda is an expression
        if isinstance(suite, list) and any(each is statement for each in suite):
            return suite
    raise refusal("The statement is in no block", module, statement)


def statement_of(module: Module, node: ast.AST) -> ast.stmt:
    """The statement that an expression is part of."""
    if isinstance(node, ast.stmt):
        return node
    for around in module.around(node):
        if isinstance(around, ast.stmt):
            return around
    raise RewriteRefused("The expression is in no statement", file=module.path)


def preceding(module: Module, statement: ast.stmt, within: ast.AST) -> list[ast.stmt]:
    """The statements before one in its block and in the blocks around it, up to ``within``, in order."""
    found: list[ast.stmt] = []
    node: ast.AST = statement
    while node is not within and not isinstance(node, ast.Module):
        if isinstance(node, ast.stmt):
            parent = module.parents[node]
            for name in ("body", "orelse", "finalbody"):
                suite: list[ast.stmt] | ast.expr = getattr(parent, name, [])
                if isinstance(suite, list) and node in suite:
                    found = [*suite[: suite.index(node)], *found]
        node = module.parents[node]
    return found


def insert_before(module: Module, statement: ast.stmt, *lines: str) -> tuple[TextEdit, ...]:
    """New lines before a statement; each level of indentation in them is written as four blanks.

    If the statement shares its line, the new lines go on that line or split it. A block on the line of its
    header, as in ``if x: y``, takes only simple statements.
    """
    place, suite = _place(module, statement), suite_of(module, statement)
    newline = module.source.newline_after(statement.lineno)
    text = "".join(f"{line}{newline}{place.indent}" for line in _indented(module, place, lines))
    if place.own_line:
        return (inserted(module, place.start, text),)
    if _on_header_line(module, suite) or _are_simple(lines):
        _check_simple(module, statement, lines)
        return (inserted(module, place.start, "".join(f"{line}; " for line in lines)),)
    return (_onto_new_line(module, place.start, f"{newline}{place.indent}{text}"),)


def insert_after(module: Module, statement: ast.stmt, *lines: str) -> tuple[TextEdit, ...]:
    """New lines after a statement; see ``insert_before``."""
    place, suite = _place(module, statement), suite_of(module, statement)
    following = _following(module, suite, statement)
    if _on_header_line(module, suite) or (following is not None and _are_simple(lines)):
        _check_simple(module, statement, lines)
        return (inserted(module, place.end, "".join(f"; {line}" for line in lines)),)
    newline = module.source.newline_after(module.source.position(place.end)[0])
    text = "".join(f"{newline}{place.indent}{line}" for line in _indented(module, place, lines))
    if following is not None:
        start = _place(module, following).start
        return (_onto_new_line(module, start, f"{text}{newline}{place.indent}"),)
    return (inserted(module, _end_of_line(module, place.end), text),)


def wrap(
    module: Module,
    statements: Sequence[ast.stmt],
    header: str,
    *,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> tuple[TextEdit, ...]:
    """``header`` (such as ``with x:``) around neighbouring statements of one block, with lines before and after it.

    All lines are moved by insertions at their starts. Lines that begin inside a string stay, since their
    blanks are part of its value. Statements that share a line with others get lines of their own.
    """
    first, last = statements[0], statements[-1]
    suite = suite_of(module, first)
    if not any(each is last for each in suite):
        raise refusal("The statements are not in one block", module, first)
    place = _place(module, first)
    unit, newline = unit_of(module, place.indent), module.source.newline_after(first.lineno)
    lines = "".join(f"{line}{newline}{place.indent}" for line in before)
    opening = f"{lines}{header}{newline}{place.indent}{unit}"
    closing = "".join(f"{newline}{place.indent}{line}" for line in _indented(module, place, after))
    chosen = suite[suite.index(first) : suite.index(last) + 1]
    next_one = suite[suite.index(last) + 1] if last is not suite[-1] else None
    edits: list[TextEdit] = []
    if _on_header_line(module, suite):
        for each in suite:
            text = opening if each is first else unit if each in chosen else ""
            lead, closing = (closing, "") if each is next_one else ("", closing)
            start = _place(module, each).start
            edits.append(_onto_new_line(module, start, f"{lead}{newline}{place.indent}{text}"))
    else:
        if place.own_line:
            edits.append(inserted(module, place.start, opening))
        else:
            edits.append(_onto_new_line(module, place.start, f"{newline}{place.indent}{opening}"))
        following = _following(module, suite, last)
        if following is not None:
            start = _place(module, following).start
            edits.append(_onto_new_line(module, start, f"{closing}{newline}{place.indent}"))
            closing = ""
    end = _place(module, last).end
    if closing:
        edits.append(inserted(module, _end_of_line(module, end), closing))
    return (*edits, *_moved(module, place, end, unit))


def wrap_expression(module: Module, node: ast.expr, before: str, after: str) -> tuple[TextEdit, ...]:
    """Inserts text on both sides of an expression, as in ``f(x)`` -> ``g(f(x))``."""
    if isinstance(node, ast.Yield | ast.YieldFrom | ast.Starred):
        raise refusal("`yield` and `*` cannot be put into a call", module, node)
    start, end = offsets_of(module.source, node)
    bare = isinstance(node, ast.Tuple) and module.source.text[start] != "("
    opening, closing = ("(", ")") if bare else ("", "")
    return (inserted(module, start, before + opening), inserted(module, end, closing + after))


def replace(module: Module, node: ast.expr, text: str) -> tuple[TextEdit, ...]:
    """The edit that replaces an expression; none if its text is the same already."""
    start, end = offsets_of(module.source, node)
    if module.source.text[start:end] == text:
        return ()
    return (module.source.edit(module.source.span(start, end), text),)


def remove(module: Module, *statements: ast.stmt) -> tuple[TextEdit, ...]:
    """Removes statements of one block; writes ``pass`` if the block has no others."""
    suite, source = suite_of(module, statements[0]), module.source
    gone = {id(statement) for statement in statements}
    if len(gone) == len(suite) and not isinstance(module.parents[suite[0]], ast.Module):
        start, end = _place(module, suite[0]).start, _place(module, suite[-1]).end
        return (source.edit(source.span(start, end), "pass"),)
    edits: list[TextEdit] = []
    for sharing in _sharing_lines(module, suite):
        going = [id(each) in gone for each in sharing]
        if all(going):
            start, end = _whole_lines(module, sharing)
            edits.append(source.edit(source.span(start, end), ""))
            continue
        for first, last in _runs(going):
            start, end = _place(module, sharing[first]).start, _place(module, sharing[last]).end
            # A statement inserted after another one follows "; "; one inserted before another ends with it.
            behind = first > 0 and source.text[:start].endswith("; ")
            if last + 1 < len(sharing) and not behind:
                end = _place(module, sharing[last + 1]).start
            else:
                start = _end_before(module, start)
            edits.append(source.edit(source.span(start, end), ""))
    return tuple(edits)


def _sharing_lines(module: Module, suite: list[ast.stmt]) -> list[list[ast.stmt]]:
    """The statements of a block, grouped by logical line."""
    found: list[list[ast.stmt]] = []
    for statement in suite:
        if found and not _place(module, statement).own_line:
            found[-1].append(statement)
        else:
            found.append([statement])
    return found


def _whole_lines(module: Module, statements: list[ast.stmt]) -> tuple[int, int]:
    """The offsets of the whole lines of some statements, with comments and the last newline."""
    source = module.source
    line, _ = source.position(_place(module, statements[0]).start)
    last, _ = source.position(_end_of_line(module, _place(module, statements[-1]).end))
    end = source.offset(last + 1, 0) if last < source.line_count else len(source.text)
    return source.offset(line, 0), end


def _runs(chosen: Sequence[bool]) -> list[tuple[int, int]]:
    """The first and last place of each stretch of chosen statements."""
    firsts = [at for at, each in enumerate(chosen) if each and not (at and chosen[at - 1])]
    lasts = [at for at, each in enumerate(chosen) if each and chosen[at + 1 : at + 2] != [True]]
    return list(zip(firsts, lasts, strict=True))


def unit_of(module: Module, indent: str) -> str:
    """The text of one more level of indentation below ``indent``."""
    if "\t" in indent:
        return "\t"
    first = tokens_of(module.source).first_indent()
    if "\t" in first and indent:
        return _USUAL_UNIT
    return first.lstrip("\f") or _USUAL_UNIT


def _place(module: Module, statement: ast.stmt) -> _Place:
    source, tokens = module.source, tokens_of(module.source)
    start, end = offsets_of(source, statement)
    if isinstance(statement, Function | ast.ClassDef) and statement.decorator_list:
        first, _ = offsets_of(source, statement.decorator_list[0])
        at = tokens.before(first)
        while at is not None and at.text != "@":
            at = tokens.before(at.start)
        start = at.start if at is not None else first
    own_line = tokens.starts_logical_line(start)
    if own_line:
        line, column = source.position(start)
        return _Place(start, end, True, _blanks(source.line(line)[:column]))
    return _Place(start, end, False, _suite_indent(module, statement, tokens))


def _suite_indent(module: Module, statement: ast.stmt, tokens: Tokens) -> str:
    """The indentation of a block whose line starts with something else."""
    suite = suite_of(module, statement)
    for each in suite:
        start, _ = offsets_of(module.source, each)
        if tokens.starts_logical_line(start):
            line, column = module.source.position(start)
            return _blanks(module.source.line(line)[:column])
    parent = module.parents[statement]
    if isinstance(parent, ast.match_case):
        outer = _blanks(module.source.line(parent.pattern.lineno))
    elif isinstance(parent, ast.ExceptHandler):
        outer = _blanks(module.source.line(parent.lineno))
    elif isinstance(parent, ast.stmt):
        outer = _place(module, parent).indent
    else:
        return ""
    return outer + unit_of(module, outer)


def _is_elif(module: Module, statement: ast.stmt) -> bool:
    start, _ = offsets_of(module.source, statement)
    return isinstance(statement, ast.If) and module.source.text.startswith("elif", start)


def _on_header_line(module: Module, suite: list[ast.stmt]) -> bool:
    """True if a block is on the line of its header."""
    return not _place(module, suite[0]).own_line


def _following(module: Module, suite: list[ast.stmt], statement: ast.stmt) -> ast.stmt | None:
    """The next statement of the block if it is on the same line; None if the line ends with this one."""
    index = suite.index(statement)
    if index + 1 == len(suite):
        return None
    following = suite[index + 1]
    return None if _place(module, following).own_line else following


def _end_of_line(module: Module, offset: int) -> int:
    """The end of the line that a statement ends on, behind its comment."""
    line, _ = module.source.position(tokens_of(module.source).ends_logical_line(max(offset - 1, 0)))
    return module.source.offset(line, len(module.source.line(line)))


def _onto_new_line(module: Module, start: int, text: str) -> TextEdit:
    """Replaces the gap between a statement and the statement, or the colon, before it on its line."""
    begin = _end_before(module, start)
    gap = module.source.text[begin:start]
    if "\\" in gap:
        line, _ = module.source.position(start)
        message = "The line before the statement continues with a backslash"
        raise RewriteRefused(message, file=module.path, line=line)
    return module.source.edit(module.source.span(begin, start), text)


def _end_before(module: Module, start: int) -> int:
    """The end of the code before a statement: the previous statement on its line, or a header's colon."""
    tokens = tokens_of(module.source)
    before = tokens.before(start)
    assert before is not None
    if before.text == ";":
        statement = tokens.before(before.start)
        assert statement is not None
        return statement.end
    return before.end


def _moved(module: Module, place: _Place, end: int, unit: str) -> list[TextEdit]:
    """Moves the lines of some statements after the first one, with their comments, one level deeper."""
    source = module.source
    in_string = tokens_of(source).in_string()
    first, last = source.position(place.start)[0], source.position(end)[0]
    edits: list[TextEdit] = []
    for line in range(first + 1, last + 1):
        text = source.line(line)
        if line in in_string or not text.strip():
            continue
        behind = len(place.indent) if text.startswith(place.indent) else 0
        edits.append(inserted(module, source.offset(line, behind), unit))
    return edits


def _indented(module: Module, place: _Place, lines: Sequence[str]) -> list[str]:
    """The lines with the file's indentation in place of four blanks a level."""
    unit = unit_of(module, place.indent)
    made: list[str] = []
    for line in lines:
        level = (len(line) - len(line.lstrip(" "))) // len(_USUAL_UNIT)
        made.append(unit * level + line.lstrip(" "))
    return made


def _are_simple(lines: Sequence[str]) -> bool:
    return not any(line.startswith((" ", "#", "@")) or line.rstrip().endswith(":") for line in lines)


def _check_simple(module: Module, statement: ast.stmt, lines: Sequence[str]) -> None:
    if not _are_simple(lines):
        message = "The statement is on the line of its block's header, where no other block can be added"
        raise refusal(message, module, statement)


def _blanks(text: str) -> str:
    match = _INDENT.match(text)
    return match.group() if match else ""


def inserted(module: Module, offset: int, text: str) -> TextEdit:
    """New text at a place."""
    return module.source.edit(module.source.span(offset, offset), text)
