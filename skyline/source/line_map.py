"""Comparison of two versions of a text: the lines that correspond, and whether both run the same code."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from difflib import SequenceMatcher
from functools import lru_cache

_LINE_END = re.compile(r"\r\n|\r|\n")


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
    """Unchanged items, counted from 1: first at both ends, then by the longest runs that both have.

    The items are lines, or words within lines.
    """
    first, least = 0, min(len(old), len(new))
    while first < least and old[first] == new[first]:
        first += 1
    end = 0
    while end < least - first and old[-1 - end] == new[-1 - end]:
        end += 1
    # difflib leaves out the most frequent of many items, and is then fast enough for every keystroke.
    between = SequenceMatcher(None, old[first : len(old) - end], new[first : len(new) - end])
    blocks = [
        (0, 0, first),
        *((first + block.a, first + block.b, block.size) for block in between.get_matching_blocks()),
        (len(old) - end, len(new) - end, end),
    ]
    return {at + one: new_at + one for at, new_at, size in blocks for one in range(1, size + 1)}


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def same_code(left: str, right: str) -> bool:
    """True if both versions run the same code. Unparseable versions must be equal as text."""
    if left == right:
        return True
    ours = _essence(left)
    return ours is not None and ours == _essence(right)


@lru_cache(maxsize=64)
def _essence(text: str) -> str | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            # A body may not be empty; the placeholder for a docstring does not depend on its text.
            node.body[0] = ast.Pass()
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
