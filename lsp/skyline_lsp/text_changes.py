"""A document's text as its client changes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from lsprotocol import types
from pygls.workspace import PositionCodec

# Where the protocol ends a line; a form feed or U+2028 stays inside it.
_LINE_END = re.compile(r"\r\n|\r|\n")


def changed(text: str, changes: Sequence[types.TextDocumentContentChangeEvent], codec: PositionCodec) -> str:
    """The text after the changes, one after the other.

    Whole texts are what is asked for; a client that sends ranges all the same is followed too. What lies beyond the
    end of a line is its end, what lies beyond the last line is the end of the text, and a range that is the wrong way
    round is turned.
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
