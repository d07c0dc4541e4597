"""Checks for every rewrite that the rest of the source file is unchanged.

Texts are read by ``source_reading``, which uses only Python itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from source_reading import Piece, Reading, Statement, read

from skyline.source.text import SourceText, TextEdit

# Separators of statements that may be replaced by a line break.
_PARTING = {";"}
_NEWLINE = re.compile(r"\r\n|\r|\n")
_TRAILING = re.compile(r"[ \t]+(?=[\r\n]|\Z)")


class Corrupted(Exception):
    """A rewrite changed something that it must not change. The message names it."""


@dataclass(frozen=True)
class Moves:
    """The new offsets of a text after some edits."""

    spans: tuple[tuple[int, int, int], ...]
    """For each edit, its start and end in the old text, and the length of its new text."""
    moved_only: frozenset[tuple[int, int]] = frozenset()
    """The places at which edits wrote only blanks."""

    @classmethod
    def of(cls, text: str, edits: Sequence[TextEdit]) -> Moves:
        """The moves of edits of a text. Raises Corrupted if an edit does not fit the text, or if two overlap."""
        starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        spans: list[tuple[int, int, int]] = []
        blank: set[tuple[int, int]] = set()
        for edit in edits:
            start = starts[edit.span.line - 1] + edit.span.column
            end = starts[edit.span.end_line - 1] + edit.span.end_column
            if text[start:end] != edit.old_text:
                raise Corrupted(f"the old text of an edit is not at its place: {edit.old_text!r}")
            spans.append((start, end, len(edit.new_text)))
            if not edit.new_text.strip():
                blank.add((start, end))
        spans.sort()
        if any(before[1] > after[0] for before, after in pairwise(spans)):
            raise Corrupted("edits overlap")
        return cls(tuple(spans), frozenset(blank))

    def moved(self, offset: int) -> int | None:
        """The new offset of the text at an old offset. None if it was replaced."""
        shift = 0
        for start, end, length in self.spans:
            if start <= offset < end:
                return None
            if end <= offset:
                shift += length - (end - start)
        return offset + shift

    def written(self) -> list[tuple[int, int]]:
        """The ranges of the new text that edits wrote."""
        ranges: list[tuple[int, int]] = []
        shift = 0
        for start, end, length in self.spans:
            ranges.append((start + shift, start + shift + length))
            shift += length - (end - start)
        return ranges


def check(before: SourceText, after: SourceText, edits: Sequence[TextEdit]) -> dict[int, int]:
    """Raise Corrupted if more changed than the edits, or if the rest of the file changed.

    Returns the new offset of each remaining statement by its old offset.
    """
    moves = Moves.of(before.text, edits)
    if applied(before.text, moves, edits) != after.text:
        raise Corrupted("the edits do not give the text")
    _check_file(before, after)
    _check_layout(before.text, after.text)
    old, new = read(before.text), read(after.text)
    if old.error:
        raise Corrupted(f"the unchanged text does not compile: {old.error}")
    if new.error:
        raise Corrupted(f"the new text does not compile: {new.error}")
    _check_boundaries(old, moves)
    _check_tokens(old, new, moves)
    mapped = _check_structure(old, new, moves)
    _check_meaning(old, new, mapped, moves)
    _check_comments(old, new, moves)
    _check_names(old, new)
    return mapped


def applied(text: str, moves: Moves, edits: Sequence[TextEdit]) -> str:
    """The text with the edits, applied independently of the product."""
    ordered = sorted(edits, key=lambda edit: (edit.span.line, edit.span.column))
    pieces, done = list[str](), 0
    for (start, end, _), edit in zip(moves.spans, ordered, strict=True):
        pieces += (text[done:start], edit.new_text)
        done = end
    return "".join((*pieces, text[done:]))


def undone(before: SourceText, after: SourceText, edits: Sequence[TextEdit]) -> bool:
    """True if replacing the new text by the old text gives the same bytes as before."""
    text = after.text
    ordered = sorted(edits, key=lambda edit: (edit.span.line, edit.span.column))
    for (start, end), edit in reversed(
        list(zip(Moves.of(before.text, edits).written(), ordered, strict=True))
    ):
        text = text[:start] + edit.old_text + text[end:]
    return SourceText(before.path, text, after.encoding, after.byte_order_mark).encode() == before.encode()


def _check_file(before: SourceText, after: SourceText) -> None:
    if (before.encoding, before.byte_order_mark) != (after.encoding, after.byte_order_mark):
        raise Corrupted("the encoding changed")
    try:
        data = after.encode()
    except UnicodeEncodeError as error:
        raise Corrupted(f"the new text cannot be saved: {error}") from error
    if SourceText.decode(after.path, data).text != after.text:
        raise Corrupted("the saved file is read as another text")


def _check_layout(before: str, after: str) -> None:
    had, has = Counter(_NEWLINE.findall(before)), Counter(_NEWLINE.findall(after))
    for kind in has:
        if not had[kind] and had:
            raise Corrupted(f"a line has a new kind of line end: {kind!r}")
    if _ends(before) != _ends(after):
        raise Corrupted("the end of the last line changed")
    if len(_TRAILING.findall(after)) > len(_TRAILING.findall(before)):
        raise Corrupted("an edit added blanks at the end of a line")


def _ends(text: str) -> bool:
    return text.endswith(("\n", "\r"))


def _check_boundaries(old: Reading, moves: Moves) -> None:
    """Check that no edit begins or ends inside a token: only whole tokens are replaced."""
    for start, end, _ in moves.spans:
        for piece in old.pieces:
            if piece.start < start < piece.end or piece.start < end < piece.end:
                raise Corrupted(f"{piece.text!r} is cut in two")


def _check_tokens(old: Reading, new: Reading, moves: Moves) -> None:
    kept = [each.text for each in _outside(old.pieces, [span[:2] for span in moves.spans])]
    now = [each.text for each in _outside(new.pieces, moves.written())]
    if kept != now:
        index = next(
            (i for i, (one, two) in enumerate(zip(kept, now, strict=False)) if one != two),
            min(len(kept), len(now)),
        )
        raise Corrupted(
            f"tokens outside the edits differ: {kept[index : index + 3]} / {now[index : index + 3]}"
        )


def _outside(pieces: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> list[Piece]:
    return [
        piece
        for piece in pieces
        if piece.text not in _PARTING
        and not any(piece.start < end and start < piece.end for start, end in spans)
    ]


def _check_structure(old: Reading, new: Reading, moves: Moves) -> dict[int, int]:
    """Check that every old statement is still inside the same headers. New blocks around it do not count.

    Returns the new offset of each statement, without replaced ones.
    """
    mapped = {offset: _place(moves, offset, new) for offset in old.statements}
    there = {place for place in mapped.values() if place is not None}
    for offset, statement in old.statements.items():
        place = mapped[offset]
        if place is None:
            continue
        line = old.line(offset)
        if place not in new.statements:
            raise Corrupted(f"a statement is missing: line {line}")
        now = new.statements[place]
        if now.kind != statement.kind:
            raise Corrupted(f"line {line} was {statement.kind}, is {now.kind}")
        expected = [(mapped[each], part) for each, part in statement.around if mapped[each] is not None]
        found = [(each, part) for each, part in now.around if each in there]
        if expected != found:
            raise Corrupted(f"line {line} is in another block")
    written = moves.written()
    for place in new.statements.keys() - there:
        if not any(start <= place <= end for start, end in written):
            raise Corrupted(f"there is a new statement outside the edits: line {new.line(place)}")
    return {offset: place for offset, place in mapped.items() if place is not None}


def _place(moves: Moves, offset: int, new: Reading) -> int | None:
    """The new offset of a statement. It is before its old beginning if text was inserted before its first name."""
    place = moves.moved(offset)
    if place is None or place in new.statements:
        return place
    fronts = [start for start, end in moves.written() if end == place]
    return max(
        (start for start in new.statements for front in fronts if front <= start < place), default=place
    )


def _check_meaning(old: Reading, new: Reading, mapped: dict[int, int], moves: Moves) -> None:
    """Check that statements without an edit keep their meaning: their syntax trees must be the same."""
    for offset, place in mapped.items():
        was, now = old.statements[offset], new.statements[place]
        if old.text[offset : was.end] == new.text[place : now.end] or _is_touched(old, was, moves):
            continue
        if was.says != now.says:
            raise Corrupted(f"line {old.line(offset)} says something else: {was.says} / {now.says}")


def _is_touched(old: Reading, statement: Statement, moves: Moves) -> bool:
    """True if an edit changes more than indentation in a statement. A block includes all statements in it."""
    return any(
        start <= statement.end
        and statement.start <= end
        and not (start == end and (start, end) in moves.moved_only and _begins_line(old, start))
        for start, end, _ in moves.spans
    )


def _begins_line(old: Reading, offset: int) -> bool:
    """True if only blanks precede a place on its line."""
    return not old.text[old.starts[old.line(offset) - 1] : offset].strip()


def _check_comments(old: Reading, new: Reading, moves: Moves) -> None:
    """Check that a comment stays next to its code. It may be removed only together with the code before it."""
    trailing = {piece.start: piece.trails for piece in new.pieces if piece.is_comment}
    for before, piece in zip((None, *old.pieces), old.pieces, strict=False):
        if not piece.is_comment:
            continue
        place = moves.moved(piece.start)
        beside = moves.moved(before.start) if before is not None and piece.trails else None
        if place is None and beside is not None:
            raise Corrupted(f"the comment {piece.text!r} is removed, but its code is not")
        if place is None:
            continue
        if trailing.get(place) != piece.trails:
            how = "on a line with code" if piece.trails else "on a separate line"
            raise Corrupted(f"the comment {piece.text!r} is no longer {how}")
        if beside is not None and before is not None:
            end = beside + before.end - before.start
            if new.line(end) != new.line(place):
                raise Corrupted(f"the comment {piece.text!r} no longer follows {before.text!r}")


def _check_names(old: Reading, new: Reading) -> None:
    """Check that names are looked up in the same scopes, that all read names exist, and are bound before their use."""
    unbound = new.unbound - old.unbound
    if unbound:
        raise Corrupted(f"nothing binds {sorted(unbound)}")
    for path, scope in old.scopes.items():
        if path not in new.scopes:
            raise Corrupted(f"the scope {path[1:]} is gone")
        for name, where in scope.items():
            now = new.scopes[path].get(name, where)
            if now != where:
                raise Corrupted(f"{name} in {path[1:] or 'the file'} is looked up in {now}, not in {where}")
    for (path, name), first in new.bound.items():
        was_there = (path, name) in old.bound
        used = new.used.get((path, name))
        if not was_there and used is not None and used < first:
            raise Corrupted(f"{name} is read on line {new.line(used)}, bound on line {new.line(first)}")
        if not was_there and not path and any(scope.get(name) == "file" for scope in old.scopes.values()):
            raise Corrupted(f"{name} already has a meaning, and is bound on line {new.line(first)}")
    for path, name in new.claimed - old.claimed:
        if (path, name) in old.bound:
            raise Corrupted(f"{name} is already bound in {path[1:] or 'the file'}, and is bound once more")
