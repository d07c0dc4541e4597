"""Where a line went whose text has changed."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from skyline.source.line_map import line_map

_LINE_END = re.compile(r"\r\n|\r|\n")
_ALIKE = 0.6
"""How alike two lines must be, from 0 to 1, for one to be what has become of the other."""


def changed_line(old: str, new: str, line: int) -> int | None:
    """The present number of a line that reads otherwise now; None where that cannot be told.

    One that was only indented is found by its words. Any other is looked for between the nearest lines that stayed:
    it is the one in its place where there are as many lines as before, else the one that is most like it.
    """
    before, after = _LINE_END.split(old), _LINE_END.split(new)
    if not 1 <= line <= len(before):
        return None
    words = before[line - 1].strip()
    alike = [number for number, text in enumerate(after, 1) if text.strip() == words]
    if words and len(alike) == 1 and sum(text.strip() == words for text in before) == 1:
        return alike[0]
    moved = line_map(old, new)
    first = next((at for at in range(line - 1, 0, -1) if moved(at) is not None), 0)
    last = next((at for at in range(line + 1, len(before) + 1) if moved(at) is not None), len(before) + 1)
    above = (moved(first) or 0) if first else 0
    below = (moved(last) or 0) if last <= len(before) else len(after) + 1
    if below - above == last - first:
        return above + line - first
    return _most_alike(words, {number: after[number - 1].strip() for number in range(above + 1, below)})


def _most_alike(words: str, lines: dict[int, str]) -> int | None:
    ratios = {number: SequenceMatcher(None, words, text).ratio() for number, text in lines.items()}
    best = max(ratios, key=lambda number: ratios[number], default=None)
    return best if best is not None and ratios[best] >= _ALIKE else None
