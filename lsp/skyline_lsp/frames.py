"""The messages in a stream of bytes: the base protocol of language servers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

LONGEST_BODY = 1 << 28
"""Maximum size of a message in bytes. A header that announces more counts as malformed."""

# The header part of the base protocol: fields end in CR LF, and an empty line ends the header. Field names are
# case-insensitive as in HTTP. A bare newline is accepted too.
_HEADER = re.compile(
    rb"content-length:[ \t]*([0-9]+)[ \t]*\r?\n(?:[!-9;-~]+:[^\r\n]*\r?\n)*\r?\n", re.IGNORECASE
)
# Maximum size of a header in bytes, including an incomplete one.
_LONGEST_HEADER = 4096


class Frames:
    """The message bodies of a stream that arrives in pieces.

    Bytes that are not a header are skipped up to the next header. A wrong length or field therefore costs one
    message, not the connection.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add received bytes and yield the completed bodies."""
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
        """Report that the last body was not a message: its length was wrong and it may contain further messages.

        JSON strings contain no raw line ends, so a header found in the body is a real one.
        """
        if _HEADER.search(body) is not None:
            self._waiting[:0] = body

    def _find_header(self) -> bool:
        end, length = _header_in(self._waiting)
        if length is None:
            # Only the last few bytes can be the start of an incomplete header.
            end = max(end, len(self._waiting) - _LONGEST_HEADER)
        del self._waiting[:end]
        self._length = length
        return length is not None


def _header_in(data: bytearray) -> tuple[int, int | None]:
    """The end of the first valid header and its content length. None: no valid header before that end."""
    end = 0
    for found in _HEADER.finditer(data):
        end, digits = found.end(), found.group(1)
        if len(digits) <= 10 and int(digits) <= LONGEST_BODY:
            return end, int(digits)
    return end, None


def parsed(body: bytes) -> Any:
    """The JSON value of a body. Raises ValueError or RecursionError if it is not JSON.

    ``NaN`` and ``1e999`` are refused: neither can be sent back as JSON.
    """
    return json.loads(body, parse_constant=_finite, parse_float=_finite)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:20]} is not a finite number")
    return value
