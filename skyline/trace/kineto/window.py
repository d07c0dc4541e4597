"""A moving view of a long text: only what is being looked at is held."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A string, or a bracket outside of strings. A quote alone is a string that does not end in this text.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_PLAIN_END = re.compile(rb"[,\]}\s]")

OPEN = -1
"""Instead of a position: the value does not end within the text at hand."""


class Window:
    """Text from ``at`` on; ``more()`` makes it longer, ``advance()`` lets go of what was used."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.data = b""
        self.at = 0
        self.ended = False

    def __len__(self) -> int:
        return len(self.data) - self.at

    def more(self) -> bool:
        """Take in the next piece; False at the end of the text."""
        piece = next(self._pieces, None)
        if piece is None:
            self.ended = True
            return False
        self.data = self.data[self.at :] + piece
        self.at = 0
        return True

    def fill(self, size: int) -> None:
        """Take in pieces until ``size`` bytes are at hand or the text ends."""
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
        """Pass over some characters; the character after them, which stays, or ``b""`` at the end."""
        while True:
            while self.at < len(self.data):
                character = self.data[self.at : self.at + 1]
                if character not in ignored:
                    return character
                self.at += 1
            if not self.more():
                return b""

    def value(self, limit: int) -> bytes | None:
        """The JSON value at hand, and pass it; None where it does not end, or not within ``limit`` bytes.

        Only brackets and quotes are looked at: the value may still be no JSON.
        """
        while True:
            end = value_end(self.data, self.at, last=self.ended)
            if end != OPEN:
                text = self.data[self.at : end]
                self.at = end
                return text
            if self.ended or len(self) > limit:
                return None
            self.fill(2 * len(self) + 1)


def value_end(data: bytes, start: int, *, last: bool) -> int:
    """Where the JSON value that starts at ``start`` ends, or OPEN. ``last``: no text follows ``data``."""
    first = data[start : start + 1]
    if first not in (b"{", b"[", b'"'):
        found = _PLAIN_END.search(data, start)
        if found is None:
            return len(data) if last and start < len(data) else OPEN
        return found.start()
    depth = 0
    for token in _TOKEN.finditer(data, start):
        text = token.group()
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif text == b'"':
            return OPEN
        if depth <= 0:
            return token.end()
    return OPEN
