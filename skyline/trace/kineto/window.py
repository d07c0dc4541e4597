"""A moving view of a long text: only the current part is in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

# Matches a string without escapes, or a bracket outside strings. A quote alone begins any other string. A single
# expression for all strings would use a hundred bytes per escape while it searches for the end.
_TOKEN = re.compile(rb'"[^"\\]*"|["{}\[\]]')
_ESCAPE_OR_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_PLAIN_END = re.compile(rb"[,\]}\s]")

OPEN = -1
"""Result in place of a position: the value does not end within the loaded text."""
TOO_DEEP = -2
"""Result in place of a position: brackets nested deeper than in any trace."""

_DEEPEST = 500
"""Deepest nesting. Events nest four levels, nodes of execution traces six. Scanning endless nesting takes long."""


class TextWindow:
    """Text from ``at`` on; ``more()`` extends it, ``advance()`` frees the used part."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.data = b""
        self.at = 0
        self.ended = False

    def __len__(self) -> int:
        return len(self.data) - self.at

    def more(self) -> bool:
        """Load the next chunk; False at the end of the text."""
        piece = next(self._pieces, None)
        if piece is None:
            self.ended = True
            return False
        self.data = self.data[self.at :] + piece
        self.at = 0
        return True

    def fill(self, size: int) -> None:
        """Load chunks until ``size`` bytes are available or the text ends."""
        if len(self) >= size:
            return
        taken = [self.data[self.at :]]
        length = len(taken[0])
        while length < size and not self.ended:
            piece = next(self._pieces, None)
            if piece is None:
                self.ended = True
            else:
                taken.append(piece)
                length += len(piece)
        if len(taken) > 1:
            self.data = b"".join(taken)
            self.at = 0

    def skip(self, ignored: bytes = b" \t\r\n") -> bytes:
        """Skip some characters; return the next character without consuming it, or ``b""`` at the end."""
        other = _other_than(ignored)
        while True:
            if found := other.search(self.data, self.at):
                self.at = found.start()
                return found.group()
            self.at = len(self.data)
            if not self.more():
                return b""

    def value(self, limit: int) -> bytes | None:
        """Consume and return the next JSON value; None if it does not end, or not within ``limit`` bytes.

        Only brackets and quotes are examined: the value may be invalid JSON.
        """
        while True:
            end = value_end(self.data, self.at, last=self.ended)
            if end >= 0:
                if end - self.at > limit:
                    return None
                text = self.data[self.at : end]
                self.at = end
                return text
            if end == TOO_DEEP or self.ended or len(self) > limit:
                return None
            self.fill(2 * len(self) + 1)


@cache
def _other_than(ignored: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[^" + re.escape(ignored) + b"]")


def value_end(data: bytes, start: int, *, last: bool) -> int:
    """The end of the JSON value at ``start``, or OPEN, or TOO_DEEP. ``last``: no text follows ``data``."""
    first = data[start : start + 1]
    if first not in (b"{", b"[", b'"'):
        found = _PLAIN_END.search(data, start)
        if found is None:
            return len(data) if last and start < len(data) else OPEN
        return found.start()
    depth = 0
    at = start
    while token := _TOKEN.search(data, at):
        text, at = token.group(), token.end()
        if text in (b"{", b"["):
            depth += 1
            if depth > _DEEPEST:
                return TOO_DEEP
        elif text in (b"}", b"]"):
            depth -= 1
        elif text == b'"':
            at = _string_end(data, at)
            if at == OPEN:
                return OPEN
        if depth <= 0:
            return at
    return OPEN


def _string_end(data: bytes, start: int) -> int:
    """The end of the string whose first character is at ``start``, or OPEN."""
    for found in _ESCAPE_OR_QUOTE.finditer(data, start):
        if found.group() == b'"':
            return found.end()
    return OPEN
