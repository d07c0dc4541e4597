"""Cuts the bytes that a client sends into messages, and finds its way again after a broken one."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_BODY = 1 << 28
"""Bytes of the longest message that is taken; a header that announces more is taken for a broken one."""

# The base protocol's header part: fields end in CR LF, an empty line ends them. Names of fields are those of HTTP,
# whose case does not count; a bare newline is let pass.
_HEADER = re.compile(
    rb"content-length:[ \t]*([0-9]+)[ \t]*\r?\n(?:[!-9;-~]+:[^\r\n]*\r?\n)*\r?\n", re.IGNORECASE
)
# A header may still be coming in behind this many bytes, no more.
_LONGEST_HEADER = 4096


class Frames:
    """The bodies of the messages in a stream that comes in pieces.

    What is no header is skipped up to the next one, so that one wrong length or field costs the message that it
    stands before, not the connection.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are complete with these bytes."""
        self._waiting += data
        while True:
            if self._length is None and not self._find_header():
                return
            if self._length is None or len(self._waiting) < self._length:
                return
            body = bytes(self._waiting[: self._length])
            del self._waiting[: self._length]
            self._length = None
            yield body

    def broken(self, body: bytes) -> None:
        """The body just given is no message: its length was wrong, and the next ones may begin within it.

        No string in a JSON text holds a raw line end, so that a header found there is one.
        """
        if _HEADER.search(body) is not None:
            self._waiting[:0] = body

    def _find_header(self) -> bool:
        end, length = _header_in(self._waiting)
        if length is None:
            # Nothing before the last few bytes can be the start of a header that is still to be completed.
            end = max(end, len(self._waiting) - _LONGEST_HEADER)
        del self._waiting[:end]
        self._length = length
        return length is not None


def _header_in(data: bytearray) -> tuple[int, int | None]:
    """Where the first usable header ends, and the length that it announces; None: there is none up to there."""
    end = 0
    for found in _HEADER.finditer(data):
        end, digits = found.end(), found.group(1)
        if len(digits) <= 10 and int(digits) <= LONGEST_BODY:
            return end, int(digits)
    return end, None
