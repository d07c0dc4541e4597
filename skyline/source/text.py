"""A source file as text that can be written back byte for byte, its tokens, and its Python syntax."""

from __future__ import annotations

import ast
import io
import re
import token as kinds
import tokenize
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.cells import headings, is_notebook
from skyline.source.notebook import Notebook
from skyline.uncollected import uncollected
from skyline.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A range of text in one file.

    ``line`` counts from 1, as editors and tracebacks print it; ``column`` counts characters (code points)
    from 0 in the decoded text, and ``end_column`` is exclusive.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters of ``span``, which must still equal ``old_text``, by ``new_text``."""

    span: SourceSpan
    old_text: str
    new_text: str


_BYTE_ORDER_MARK = "\ufeff"
# Python ends a line at these three only: a form feed, a vertical tab or U+2028 is part of its line.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The decoded text of one file, with everything needed to write it back byte for byte.

    ``text`` keeps every newline of the file and omits the byte order mark. Lines count from 1 and columns
    from 0, in characters, as in ``SourceSpan``; the conversions name the other units. For a notebook,
    ``text`` is the code of its cells as one script; changes are written back into the cells.
    """

    path: str
    text: str
    encoding: str = "utf-8"
    byte_order_mark: bool = False
    notebook: Notebook | None = field(default=None, repr=False, compare=False)
    """The file around the text, if the text was read from a notebook."""
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = (0, *(match.end() for match in _LINE_END.finditer(self.text)))
        object.__setattr__(self, "_starts", starts)

    @classmethod
    def read(cls, path: str | Path) -> SourceText:
        """Read the file at ``path``; raises UsageError if it is missing or not text."""
        try:
            data = read_bounded(path, LARGEST_TEXT_BYTES)
        except FileNotFoundError:
            raise UsageError(f"{path} does not exist", hint="Check the path of the script.") from None
        except IsADirectoryError:
            raise UsageError(f"{path} is a directory", hint="Name the script inside it.") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        return cls.decode(str(path), data)

    @classmethod
    def decode(cls, path: str, data: bytes) -> SourceText:
        """Decode ``data`` by its byte order mark or encoding cookie; UTF-8 without either."""
        if is_notebook(path):
            notebook = Notebook.parse(path, data)
            return cls(path, notebook.script(), notebook=notebook)
        lines = io.BytesIO(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        try:
            encoding, _ = tokenize.detect_encoding(lines.readline)
        except SyntaxError as error:
            hint = "Save the file as UTF-8, or name its encoding in the first line: # -*- coding: … -*-"
            raise UsageError(f"{path} is not Python source: {error.msg}", hint=hint) from error
        mark = encoding == "utf-8-sig"
        encoding = "utf-8" if mark else encoding
        try:
            text = (data[3:] if mark else data).decode(encoding)
            source = cls(path, text, encoding, mark)
            exact = source.encode() == data
        except (UnicodeError, LookupError) as error:
            hint = "Save the file as UTF-8, or name its encoding in the first line: # -*- coding: … -*-"
            raise UsageError(f"{path} is not text in {encoding}: {error}", hint=hint) from error
        if not exact:
            raise UsageError(
                f"{path} cannot be written back unchanged in {encoding}", hint="Save the file as UTF-8."
            )
        return source

    @classmethod
    def of(cls, path: str, text: str) -> SourceText:
        """An editor's unsaved text; its encoding is read from its cookie."""
        mark = text.startswith(_BYTE_ORDER_MARK)
        text = text.removeprefix(_BYTE_ORDER_MARK)
        head = "\n".join(_LINE_END.split(text, maxsplit=2)[:2]).encode("utf-8", "replace")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        except SyntaxError:
            encoding = "utf-8"
        return cls(path, text, "utf-8" if mark else encoding, mark)

    def encode(self) -> bytes:
        """The bytes of the file; raises UnicodeEncodeError if the file's encoding lacks a character."""
        if self.notebook is not None:
            return self.notebook.with_script(self.text)
        if is_notebook(self.path):
            raise UsageError(f"{self.path} is a notebook: its code alone cannot be written")
        mark = _BYTE_ORDER_MARK if self.byte_order_mark else ""
        return (mark + self.text).encode(self.encoding)

    def write_bytes(self, path: str | Path | None = None) -> None:
        """Write the file back, or to ``path``; raises UsageError on failure, with the file as it was."""
        target = Path(path if path is not None else self.path)
        try:
            data = self.encode()
        except UnicodeEncodeError as error:
            reason = f"{error.object[error.start : error.end]!r} does not exist in {self.encoding}"
            raise UsageError(f"{target} cannot be written: {reason}") from error
        try:
            write_whole(target, data)
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error

    @property
    def line_count(self) -> int:
        """The number of lines, including an empty one after a final newline."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """One line without its newline; empty outside the file."""
        if not 1 <= number <= self.line_count:
            return ""
        end = self._starts[number] if number < self.line_count else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")

    def newline_after(self, number: int) -> str:
        """The newline that ends this line; for the last line, the newline style of the file."""
        start = self._starts[min(max(number, 1), self.line_count) - 1]
        match = _LINE_END.search(self.text, start) or _LINE_END.search(self.text)
        return match.group() if match else "\n"

    def offset(self, line: int, column: int) -> int:
        """The position in ``text``; raises ValueError outside the file."""
        if not (1 <= line <= self.line_count and 0 <= column <= len(self.line(line))):
            raise ValueError(f"{self.path} has no line {line}, column {column}")
        return self._starts[line - 1] + column

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a position in ``text``."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]

    def column_from_utf8(self, line: int, utf8_column: int) -> int:
        """The characters before the ``utf8_column``-th byte of the line, the unit of ``ast``."""
        text = self.line(line)
        return utf8_column if text.isascii() else len(_utf8(text)[:utf8_column].decode("utf-8", "ignore"))

    def column_from_utf16(self, line: int, utf16_column: int) -> int:
        """The characters before the ``utf16_column``-th code unit, the unit of editors; clipped to the line."""
        text = self.line(line)
        units = 0
        for column, character in enumerate(text):
            if units >= utf16_column:
                return column
            units += 2 if character > "\uffff" else 1
        return len(text)

    def span(self, start: int, end: int) -> SourceSpan:
        """The span between two positions in ``text``."""
        return SourceSpan(self.path, *self.position(start), *self.position(end))

    def at(self, span: SourceSpan) -> str:
        """The characters of a span, newlines as in the file; raises ValueError outside the file."""
        return self.text[self.offset(span.line, span.column) : self.offset(span.end_line, span.end_column)]

    def edit(self, span: SourceSpan, new_text: str) -> TextEdit:
        """The edit that replaces the text of the span by ``new_text``."""
        return TextEdit(span, self.at(span), new_text)

    def difference(self, text: str) -> TextEdit:
        """The shortest single replacement that turns this text into another."""
        shorter = min(len(self.text), len(text))
        head = 0
        while head < shorter and self.text[head] == text[head]:
            head += 1
        # Never split a carriage return from its newline: no editor can address that position.
        while head and self.text[head - 1] == "\r":
            head -= 1
        tail = 0
        while tail < shorter - head and self.text[-1 - tail] == text[-1 - tail]:
            tail += 1
        if tail and self.text[-tail] == "\n" and "\r" in (self.text[-tail - 1 :][:1], text[-tail - 1 :][:1]):
            tail -= 1
        span = self.span(head, len(self.text) - tail)
        return self.edit(span, text[head : len(text) - tail])

    def apply(self, edits: Iterable[TextEdit]) -> SourceText:
        """This text with the edits applied.

        Insertions at one position keep the given order. Raises RewriteRefused if an edit is for another file, overlaps
        another one, or does not find the text that it replaces.
        """
        placed = sorted(((*self._range(edit), edit) for edit in edits), key=lambda entry: entry[:2])
        pieces: list[str] = []
        done = 0
        for start, end, edit in placed:
            if start < done:
                message = "Two changes would touch the same text"
                raise RewriteRefused(
                    message, file=self.path, line=edit.span.line, hint="Make them one by one."
                )
            pieces += (self.text[done:start], edit.new_text)
            done = end
        changed = replace(self, text="".join((*pieces, self.text[done:])))
        if is_notebook(self.path) and headings(changed.text) != headings(self.text):
            raise RewriteRefused("The change would reach across cells of the notebook", file=self.path)
        return changed

    def _range(self, edit: TextEdit) -> tuple[int, int]:
        span = edit.span
        try:
            start, end = self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)
        except ValueError:
            start, end = 0, -1
        if span.file != self.path or self.text[start : max(end, 0)] != edit.old_text or end < start:
            message = f"The file changed: {edit.old_text!r} is no longer where it was"
            raise RewriteRefused(message, file=span.file, line=span.line, hint="Profile it again.")
        return start, end


def read_if_there(path: Path) -> SourceText | None:
    """The text of a file; None if there is no readable one."""
    if not path.is_file():
        return None
    try:
        return SourceText.read(path)
    except SkylineError:
        return None


def _utf8(text: str) -> bytes:
    # An editor's text may hold lone surrogates; they count as three bytes and must not stop a conversion.
    return text.encode("utf-8", "surrogatepass")


Located = ast.expr | ast.stmt | ast.arg | ast.keyword
Function = ast.FunctionDef | ast.AsyncFunctionDef

# A display of this length is a data table without settings.
_TABLE_LENGTH = 2_000
_DISPLAYS = (ast.List, ast.Tuple, ast.Set)
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


def parse(source: SourceText) -> ast.Module:
    """The syntax tree; raises UsageError, with file and line, if the text is not Python."""
    try:
        with uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the user's code are not for us to report
            return ast.parse(source.text, source.path)
    except SyntaxError as error:
        message = f"not valid Python: {error.msg}"
        raise UsageError(
            message, file=source.path, line=error.lineno or 1, hint="Fix the syntax first."
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"not valid Python: {error}", file=source.path, line=1) from None


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The direct child nodes, except nodes without a position, such as operators, and entries of data tables."""
    if isinstance(node, _DISPLAYS) and len(node.elts) > _TABLE_LENGTH:
        return
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(each, ast.AST) and not isinstance(each, _MARKS):
                    yield each
        elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
            yield value


def span_of(source: SourceText, node: Located) -> SourceSpan:
    """The position of a node, in characters."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return SourceSpan(
        source.path,
        node.lineno,
        source.column_from_utf8(node.lineno, node.col_offset),
        end_line,
        source.column_from_utf8(end_line, end_column),
    )


def offsets_of(source: SourceText, node: Located) -> tuple[int, int]:
    """The start and end of a node in ``source.text``."""
    span = span_of(source, node)
    return source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)


def written(source: SourceText, node: Located) -> str:
    """A node as it is written."""
    start, end = offsets_of(source, node)
    return source.text[start:end]


def is_text(statement: ast.stmt) -> bool:
    """True for a string that stands alone, such as a docstring."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def text_of(node: ast.AST, limit: int = 60) -> str:
    """A node as one line for messages; a long one is cut with an ellipsis."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def names_in(nodes: Iterable[ast.AST], *contexts: type[ast.expr_context]) -> Iterator[str]:
    """The names in nodes, each as often as it occurs; ``contexts`` selects those read, stored or deleted."""
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, contexts or ast.expr_context):
                yield one.id


def dotted(node: ast.expr) -> str:
    """``a.b.c`` for a chain of names, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (front := dotted(node.value)):
        return f"{front}.{node.attr}"
    return ""


def last_name(node: ast.expr) -> str:
    """The name after the last dot: ``c`` for ``a.b.c`` and for ``f().c``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def literal_key(node: ast.Subscript) -> str | None:
    """The text in the brackets, if it is a literal."""
    constant = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return constant if isinstance(constant, str) else None


_LINES = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_BLANK = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# Since 3.12 a formatted string is many tokens; template strings follow in 3.14.
_STRING_STARTS = {getattr(kinds, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(kinds, name)}
_STRING_ENDS = {getattr(kinds, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(kinds, name)}


@dataclass(frozen=True, slots=True)
class SourceToken:
    """One token; ``kind`` is a constant of the ``token`` module."""

    kind: int
    text: str
    start: int
    end: int

    @property
    def is_code(self) -> bool:
        """True if it is neither comment nor layout; the end of a logical line counts as code."""
        return self.kind not in _BLANK


class Tokens:
    """The tokens of one text."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.all = _tokens(source)
        self.code = tuple(token for token in self.all if token.is_code)
        self._starts = [token.start for token in self.code]
        self._line_starts = {
            token.start
            for before, token in zip((None, *self.code), self.code, strict=False)
            if (before is None or before.kind == tokenize.NEWLINE) and token.kind != tokenize.NEWLINE
        }

    def starts_logical_line(self, offset: int) -> bool:
        """True if the first token of a logical line starts here."""
        return offset in self._line_starts

    def before(self, offset: int) -> SourceToken | None:
        """The last code token that starts before a position; the end of a line counts as one."""
        index = bisect_left(self._starts, offset)
        return self.code[index - 1] if index else None

    def after(self, offset: int) -> SourceToken | None:
        """The first code token at or after a position; the end of a line counts as one."""
        index = bisect_left(self._starts, offset)
        return self.code[index] if index < len(self.code) else None

    def ends_logical_line(self, offset: int) -> int:
        """The end of the logical line at a position, before its newline and after its comment."""
        index = bisect_right(self._starts, offset)
        newline = next(
            (token for token in self.code[max(index - 1, 0) :] if token.kind == tokenize.NEWLINE), None
        )
        return newline.start if newline else len(self.source.text)

    def in_string(self) -> frozenset[int]:
        """The numbers of the lines that start inside a string, whose leading blanks are part of its value."""
        lines: set[int] = set()
        depth, start = 0, 0
        for token in self.all:
            if token.kind in _STRING_STARTS:
                start = token.start if depth == 0 else start
                depth += 1
            elif token.kind in _STRING_ENDS:
                depth -= 1
            if depth == 0 and (token.kind == tokenize.STRING or token.kind in _STRING_ENDS):
                begin = token.start if token.kind == tokenize.STRING else start
                first, last = self.source.position(begin)[0], self.source.position(token.end)[0]
                lines.update(range(first + 1, last + 1))
        return frozenset(lines)

    def first_indent(self) -> str:
        """The indentation of the first block of the file; empty if there is none."""
        return next((token.text for token in self.all if token.kind == tokenize.INDENT), "")


@lru_cache(maxsize=16)
def tokens_of(source: SourceText) -> Tokens:
    """The tokens of a text; raises UsageError if it is not Python."""
    return Tokens(source)


def _tokens(source: SourceText) -> tuple[SourceToken, ...]:
    lines = [line for line in _LINES.split(source.text) if line]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    starts.append(starts[-1])
    waiting = iter(lines)

    def next_line() -> str:
        return next(waiting, "").replace("\r\n", "\n").replace("\r", "\n")

    found: list[SourceToken] = []
    length = len(source.text)
    try:
        for token in tokenize.generate_tokens(next_line):
            start = min(starts[min(token.start[0], len(starts)) - 1] + token.start[1], length)
            end = min(starts[min(token.end[0], len(starts)) - 1] + token.end[1], length)
            found.append(SourceToken(token.type, token.string, start, end))
    except (tokenize.TokenError, IndentationError, SyntaxError) as error:
        raise UsageError(f"not valid Python: {error.args[0]}", file=source.path) from None
    return tuple(found)
