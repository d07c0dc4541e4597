"""A change that was written into a file, found again in a later version of the file."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache

from skyline.lazy_dataclass import dataclass
from skyline.source.line_map import matches
from skyline.source.text import SourceText, TextEdit

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One replacement: the characters from ``start`` to ``end`` of the new text replace ``old``."""

    start: int
    end: int
    old: str


@dataclass(frozen=True, slots=True)
class WrittenChange:
    """All replacements of one change in one file, and the resulting text."""

    path: str
    after: str
    hunks: tuple[Hunk, ...]

    @classmethod
    def of(cls, before: SourceText, edits: Iterable[TextEdit]) -> WrittenChange:
        """The change that these edits of a text make."""
        edits = tuple(edits)
        placed = sorted(
            ((before.offset(edit.span.line, edit.span.column), edit) for edit in edits),
            key=lambda entry: (entry[0], len(entry[1].old_text)),
        )
        hunks: list[Hunk] = []
        shift = 0
        for start, edit in placed:
            first = start + shift
            hunks.append(Hunk(first, first + len(edit.new_text), edit.old_text))
            shift += len(edit.new_text) - len(edit.old_text)
        return cls(before.path, before.apply(edits).text, tuple(hunks))

    @property
    def before(self) -> str:
        """The text before the change."""
        pieces: list[str] = []
        done = 0
        for hunk in self.hunks:
            pieces += (self.after[done : hunk.start], hunk.old)
            done = hunk.end
        return "".join((*pieces, self.after[done:]))

    def taken_out(self, now: SourceText) -> tuple[TextEdit, ...] | None:
        """The edits that undo the change in the current text, regardless of other edits.

        None if a part of the change was edited or is gone, or if the remaining text is not Python.
        """
        places = [_place(self.after, now.text, hunk.start, hunk.end) for hunk in self.hunks]
        edits: list[TextEdit] = []
        done = 0
        for hunk, place in zip(self.hunks, places, strict=True):
            if place is None or place[0] < done:
                return None
            done = place[1]
            edits.append(now.edit(now.span(*place), hunk.old))
        if now.text != self.after and self.path.endswith(".py"):
            without = now.apply(edits).text
            if _is_python(now.text) and not _is_python(without):
                return None
        return tuple(edits)

    def is_in(self, text: str) -> bool:
        """True if a text contains the whole change."""
        return text == self.after or all(
            _place(self.after, text, hunk.start, hunk.end) is not None for hunk in self.hunks
        )

    def is_undone_in(self, text: str) -> bool:
        """True if a text equals the original text in all places of the change."""
        before = self.before
        if text == before:
            return True
        if self.is_in(text):
            return False
        shift = 0
        for hunk in self.hunks:
            start = hunk.start - shift
            if _place(before, text, start, start + len(hunk.old)) is None:
                return False
            shift += hunk.end - hunk.start - len(hunk.old)
        return True


def counterpart(old: str, new: str, start: int, end: int) -> tuple[int, int] | None:
    """The range of a new text that corresponds to a range of an old one, located by its unchanged neighbours."""
    tokens, others, matched = _tokens(old), _tokens(new), _matched(old, new)
    left, right = bisect_right(tokens.ends, start) - 1, bisect_left(tokens.starts, end)
    first = matched.get(left) if left >= 0 else -1
    last = matched.get(right) if right < len(tokens.texts) else len(others.texts)
    if first is None or last is None or last - first < 2:
        return None
    return others.starts[first + 1], others.ends[last - 1]


class _Tokens:
    """Words and symbols of a text with their positions, without white space."""

    __slots__ = ("ends", "starts", "texts")

    def __init__(self, text: str) -> None:
        found = [(match.start(), match.end(), match.group()) for match in _TOKEN.finditer(text)]
        self.starts = [start for start, _, _ in found]
        self.ends = [end for _, end, _ in found]
        self.texts = [word for _, _, word in found]


@lru_cache(maxsize=64)
def _tokens(text: str) -> _Tokens:
    return _Tokens(text)


@lru_cache(maxsize=64)
def _matched(old: str, new: str) -> dict[int, int]:
    """Token indices of an old text mapped to those of a new one; tokens without a counterpart are omitted."""
    found = matches(_tokens(old).texts, _tokens(new).texts)
    return {one - 1: other - 1 for one, other in found.items()}


def _place(old: str, new: str, start: int, end: int) -> tuple[int, int] | None:
    """The position of an old range in a new text; None if it was edited or is gone."""
    if old == new:
        return start, end
    tokens, others, matched = _tokens(old), _tokens(new), _matched(old, new)
    first, last = bisect_right(tokens.ends, start), bisect_left(tokens.starts, end)
    if first >= last:
        return _gap(old, new, start, end, first)
    counterparts = [matched.get(index) for index in range(first, last)]
    head = counterparts[0]
    if head is None or counterparts != list(range(head, head + last - first)):
        return None
    # White space at the edges belongs to the range if it is unchanged; a formatter may have changed it.
    new_start, new_end = others.starts[head], others.ends[head + last - first - 1]
    lead, tail = tokens.starts[first] - start, end - tokens.ends[last - 1]
    if new_start >= lead and new[new_start - lead : new_start] == old[start : start + max(lead, 0)]:
        new_start -= lead
    if new[new_end : new_end + max(tail, 0)] == old[end - max(tail, 0) : end]:
        new_end += tail
    return new_start, new_end


def _gap(old: str, new: str, start: int, end: int, following: int) -> tuple[int, int] | None:
    """The position of an old range without tokens; ``following`` is the index of the next token."""
    tokens, others, matched = _tokens(old), _tokens(new), _matched(old, new)
    before, after = following - 1, following
    has_before, has_after = before >= 0, after < len(tokens.texts)
    left = matched.get(before) if has_before else -1
    right = matched.get(after) if has_after else len(others.texts)
    if right is None:
        return None
    left_end = tokens.ends[before] if has_before else 0
    right_start = tokens.starts[after] if has_after else len(old)
    new_right = others.starts[right] if has_after else len(new)
    if left is not None and left + 1 == right:
        new_left = others.ends[left] if left >= 0 else 0
        if old[left_end:right_start] == new[new_left:new_right]:
            return new_left + start - left_end, new_left + end - left_end
    # The indentation of a line stays its own if lines were inserted above it.
    indent = old[left_end:right_start].rpartition("\n")[2]
    if start == end or start < right_start - len(indent) or not new[:new_right].endswith("\n" + indent):
        return None
    return new_right - (right_start - start), new_right - (right_start - end)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
