"""The tokens of a file by their offsets in its text, for any line endings."""

from __future__ import annotations

import re
import token as kinds
import tokenize
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

from skyline.errors import UsageError
from skyline.source.text import SourceText

_LINES = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_BLANK = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# Since 3.12 a formatted string is many tokens; template strings follow in 3.14.
_STRING_STARTS = {getattr(kinds, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(kinds, name)}
_STRING_ENDS = {getattr(kinds, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(kinds, name)}


@dataclass(frozen=True, slots=True)
class SourceToken:
    """One token; ``kind`` is that of the ``token`` module."""

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
