"""Where the lines of a text went when it was edited."""

from __future__ import annotations

import re
from bisect import bisect_left
from difflib import SequenceMatcher
from functools import lru_cache

_LINE_END = re.compile(r"\r\n|\r|\n")
# difflib is quadratic in the changed middle; past this many comparisons a keystroke would be felt.
_MOST_COMPARISONS = 4_000_000


class LineMap:
    """Lines of an old text to lines of a new one, both counted from 1; changed lines have no counterpart."""

    __slots__ = ("_lines", "_to", "identical")

    def __init__(self, old: str, new: str) -> None:
        self.identical = old == new
        self._to: dict[int, int] = (
            {} if self.identical else _matches(_LINE_END.split(old), _LINE_END.split(new))
        )
        self._lines = sorted(self._to)

    def __call__(self, line: int) -> int | None:
        """The line's new number, None where the line itself was changed or removed."""
        return line if self.identical else self._to.get(line)

    def nearest(self, line: int) -> int:
        """The line's new number, or where it would be: just below the nearest unchanged line above it."""
        exact = self(line)
        if exact is not None:
            return exact
        above = bisect_left(self._lines, line) - 1
        return self._to[self._lines[above]] + 1 if above >= 0 else 1


@lru_cache(maxsize=64)
def line_map(old: str, new: str) -> LineMap:
    """The map between two texts; the last few are remembered, since every feature asks for the same one."""
    return LineMap(old, new)


def _matches(old: list[str], new: list[str]) -> dict[int, int]:
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    found = {line: line for line in range(1, head + 1)}
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle_old) * len(middle_new) <= _MOST_COMPARISONS:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for block in matcher.get_matching_blocks():
            for offset in range(block.size):
                found[head + block.a + offset + 1] = head + block.b + offset + 1
    for offset in range(tail):
        found[len(old) - offset] = len(new) - offset
    return found
