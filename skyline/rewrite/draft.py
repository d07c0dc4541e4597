"""A file while rewrites work on it: its text so far, and all that was done to it as edits of the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skyline.errors import RewriteRefused
from skyline.source.edit import TextEdit
from skyline.source.text import SourceText


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the text; ``start`` is its offset in the original, None for what a rewrite wrote."""

    text: str
    start: int | None

    def part(self, start: int, end: int) -> _Piece:
        return _Piece(self.text[start:end], None if self.start is None else self.start + start)


@dataclass(frozen=True, slots=True)
class RewriteDraft:
    """The original, and what has become of it; each rewrite works on the text as the ones before it left it."""

    original: SourceText
    text: SourceText
    _pieces: tuple[_Piece, ...]

    @classmethod
    def of(cls, original: SourceText) -> RewriteDraft:
        """A draft in which nothing has changed yet."""
        return cls(original, original, (_Piece(original.text, 0),))

    def edited(self, edits: Iterable[TextEdit]) -> RewriteDraft:
        """The draft with these edits of its present text made; equal ones count once.

        Raises RewriteRefused where they overlap, or replace what an earlier rewrite wrote.
        """
        asked = tuple(dict.fromkeys(edits))
        text = self.text.apply(asked)  # raises where an edit does not fit the text or another edit
        spans = [(self._offset(edit, first=True), self._offset(edit, first=False), edit) for edit in asked]
        pieces: list[_Piece] = []
        done = 0
        for start, end, edit in sorted(spans, key=lambda entry: entry[:2]):
            pieces += self._between(done, start)
            if any(piece.start is None for piece in self._between(start, end)):
                message = "Two changes would touch the same text"
                raise RewriteRefused(
                    message, file=self.text.path, line=edit.span.line, hint="Make them one by one."
                )
            if edit.new_text:
                pieces.append(_Piece(edit.new_text, None))
            done = end
        pieces += self._between(done, len(self.text.text))
        return RewriteDraft(self.original, text, tuple(pieces))

    def edits(self) -> tuple[TextEdit, ...]:
        """All that was done, as edits of the original in the order of their places."""
        made: list[TextEdit] = []
        position, written = 0, ""
        for piece in (*self._pieces, _Piece("", len(self.original.text))):
            if piece.start is None:
                written += piece.text
                continue
            if written or piece.start > position:
                made.append(self.original.edit(self.original.span(position, piece.start), written))
            position, written = piece.start + len(piece.text), ""
        return tuple(edit for edit in made if edit.old_text != edit.new_text)

    def line(self, number: int) -> int | None:
        """The present number of a line of the original, None where nothing of it is left."""
        content = self.original.line(number)
        if not content.strip():
            return None
        wanted = self.original.offset(number, len(content) - len(content.lstrip()))
        offset = 0
        for piece in self._pieces:
            if piece.start is not None and piece.start <= wanted < piece.start + len(piece.text):
                return self.text.position(offset + wanted - piece.start)[0]
            offset += len(piece.text)
        return None

    def _offset(self, edit: TextEdit, *, first: bool) -> int:
        span = edit.span
        return (
            self.text.offset(span.line, span.column)
            if first
            else self.text.offset(span.end_line, span.end_column)
        )

    def _between(self, start: int, end: int) -> list[_Piece]:
        """The pieces of a range of the present text, cut at its ends."""
        found: list[_Piece] = []
        offset = 0
        for piece in self._pieces:
            low, high = max(start - offset, 0), min(end - offset, len(piece.text))
            if low < high:
                found.append(piece.part(low, high))
            offset += len(piece.text)
        return found
