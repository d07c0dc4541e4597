"""Mapping of line numbers between two versions of a text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache

_LINE_END = re.compile(r"\r\n|\r|\n")
# difflib is quadratic; more comparisons than this would delay a keystroke noticeably.
_MOST_COMPARISONS = 40_000


class LineMap:
    """Maps lines of an old text to lines of a new one, both counted from 1; changed lines have no counterpart."""

    __slots__ = ("_last", "_lines", "_to", "identical")

    def __init__(self, old: str, new: str) -> None:
        self.identical = old == new
        lines = _LINE_END.split(new)
        self._to: dict[int, int] = {} if self.identical else matches(_LINE_END.split(old), lines)
        self._lines, self._last = sorted(self._to), len(lines)

    def __call__(self, line: int) -> int | None:
        """The line's new number; None if the line itself was changed or removed."""
        return line if self.identical else self._to.get(line)

    def nearest(self, line: int) -> int:
        """The line's new number; for a removed line, the number just below the nearest unchanged line above it."""
        exact = self(line)
        if exact is not None:
            return exact
        above = bisect_left(self._lines, line) - 1
        return min(self._to[self._lines[above]] + 1, self._last) if above >= 0 else 1


@lru_cache(maxsize=64)
def line_map(old: str, new: str) -> LineMap:
    """The map between two texts; the last few maps are cached, since all features ask for the same one."""
    return LineMap(old, new)


def matches(old: list[str], new: list[str]) -> dict[int, int]:
    """Unchanged items, counted from 1: first at both ends, then by unique items (patience diff), then the rest.

    The items are lines, or words within lines.
    """
    found: dict[int, int] = {}
    regions = [(0, len(old), 0, len(new))]
    while regions:
        first, last, new_first, new_last = regions.pop()
        while first < last and new_first < new_last and old[first] == new[new_first]:
            first, new_first = first + 1, new_first + 1
            found[first] = new_first
        while first < last and new_first < new_last and old[last - 1] == new[new_last - 1]:
            found[last] = new_last
            last, new_last = last - 1, new_last - 1
        if first == last or new_first == new_last:
            continue
        anchors = _anchors(old[first:last], new[new_first:new_last])
        if anchors:
            ends = [(first + at, new_first + new_at) for at, new_at in anchors]
            starts = [(first, new_first), *ends]
            for (start, new_start), (end, new_end) in zip(starts, [*ends, (last, new_last)], strict=True):
                regions.append((start, end, new_start, new_end))
        elif (last - first) * (new_last - new_first) <= _MOST_COMPARISONS:
            matcher = SequenceMatcher(None, old[first:last], new[new_first:new_last], autojunk=False)
            for block in matcher.get_matching_blocks():
                for offset in range(1, block.size + 1):
                    found[first + block.a + offset] = new_first + block.b + offset
    return found


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Positions of lines that occur exactly once on each side: their longest run that has the same order on both."""
    counts, new_counts = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if new_counts[line] == 1}
    pairs = [(at, places[line]) for at, line in enumerate(old) if counts[line] == 1 and line in places]
    # Patience sorting: the lowest card of each pile so far, and for each card its predecessor in the run.
    tops: list[int] = []
    piles: list[int] = []
    below: list[int] = []
    for number, (_, at) in enumerate(pairs):
        pile = bisect_left(tops, at)
        below.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(at)
            piles.append(number)
        else:
            tops[pile], piles[pile] = at, number
    run: list[tuple[int, int]] = []
    number = piles[-1] if piles else -1
    while number >= 0:
        run.append(pairs[number])
        number = below[number]
    return run[::-1]
