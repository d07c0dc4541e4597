"""Applies the client's changes to a document's text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from lsprotocol import types
from pygls.workspace import PositionCodec

# The line ends of the protocol. A form feed or U+2028 does not end a line.
_LINE_END = re.compile(r"\r\n|\r|\n")


def changed(text: str, changes: Sequence[types.TextDocumentContentChangeEvent], codec: PositionCodec) -> str:
    """Apply the changes in order and return the new text.

    The server requests whole texts but also accepts ranges. A position beyond the end of a line means the end of the
    line, and one beyond the last line means the end of the text. A reversed range is swapped.
    """
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            first, last = sorted(
                (_offset(text, change.range.start, codec), _offset(text, change.range.end, codec))
            )
            text = text[:first] + change.text + text[last:]
        else:
            text = change.text
    return text


def _offset(text: str, position: types.Position, codec: PositionCodec) -> int:
    ends = islice(_LINE_END.finditer(text), max(position.line - 1, 0), None)
    start = 0
    if position.line:
        above = next(ends, None)
        if above is None:
            return len(text)
        start = above.end()
    own = next(ends, None)
    return start + _column(text[start : own.start() if own else len(text)], position.character, codec)


def _column(line: str, units: int, codec: PositionCodec) -> int:
    if line.isascii():
        return min(units, len(line))
    for column, character in enumerate(line):
        if units <= 0:
            return column
        units -= codec.client_num_units(character)
    return len(line)
