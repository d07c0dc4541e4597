"""The input of a rewrite: the profile, the current sources and the value asked for; refusals name a place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Protocol, TypeVar

from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.line_map import line_map
from skyline.source.program import Module, Program
from skyline.source.resolver import Resolver
from skyline.source.text import SourceText, TextEdit
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine

_Found = TypeVar("_Found")
ReadText = Callable[[str], SourceText]
"""Gives the present text of a file; raises UsageError if there is none."""


def as_profiled(profile: Profile) -> ReadText:
    """Reads the sources as they were profiled, and other files, such as settings files, as they are now."""
    texts = {os.path.realpath(source.path): source.text for source in profile.sources}

    def read(path: str) -> SourceText:
        text = texts.get(os.path.realpath(path))
        return SourceText.read(path) if text is None else SourceText.of(path, text)

    return read


Step = Callable[["RewriteContext"], Iterable[TextEdit]]
"""One of several changes that are made in sequence."""


class RewriteContext:
    """The profile and the program it was made from; the program is read and parsed on first use.

    When several rewrites run together, each sees the texts as the previous ones left them.
    """

    def __init__(
        self,
        profile: Profile,
        read: ReadText,
        drafts: dict[str, RewriteDraft] | None = None,
        program: Program | None = None,
        *,
        tolerant: bool = False,
        found: dict[tuple[str, bool], Any] | None = None,
    ) -> None:
        self.profile = profile
        self._tolerant = tolerant
        self._found = {} if found is None else found
        self._read = read
        self._drafts = dict(drafts or {})
        self._program = program
        self._resolver: Resolver | None = None

    def again(self) -> RewriteContext:
        """A context with the same texts, read and parsed once, for another search."""
        return self._alike(self.program, tolerant=self._tolerant)

    def tolerant(self) -> RewriteContext:
        """A context with the same texts that accepts changed lines, such as lines that a rewrite has changed.

        The removal of a rewrite looks at lines that the rewrite has changed since the run.
        """
        return self._alike(self._program, tolerant=True)

    def _alike(self, program: Program | None, *, tolerant: bool) -> RewriteContext:
        # Results refer to the nodes of one program.
        found = None if program is None else self._found
        return RewriteContext(self.profile, self._read, self._drafts, program, tolerant=tolerant, found=found)

    def once(self, name: str, search: Callable[[], _Found]) -> _Found:
        """The result of a search of the program, which contexts with the same texts make once."""
        key = name, self._tolerant
        if key not in self._found:
            self._found[key] = search()
        return self._found[key]

    def edited(self, edits: Iterable[TextEdit]) -> RewriteContext:
        """The context of the next rewrite, after these edits of the present texts.

        Raises RewriteRefused if they conflict with earlier edits.
        """
        made = RewriteContext(self.profile, self._read, self._drafts, tolerant=self._tolerant)
        asked = tuple(edits)
        for path in dict.fromkeys(edit.span.file for edit in asked):
            draft = self._draft(path).edited(edit for edit in asked if edit.span.file == path)
            made._drafts[os.path.realpath(path)] = draft
        if not asked:
            made._program = self._program
        return made

    def in_turn(self, steps: Iterable[Step]) -> tuple[TextEdit, ...]:
        """The edits of several steps, as edits of the present texts; each step sees the results of the earlier ones."""
        made = RewriteContext(self.profile, self.text, program=self._program, tolerant=self._tolerant)
        for step in steps:
            made = made.edited(step(made.again()))
        return made.edits()

    def edits(self) -> tuple[TextEdit, ...]:
        """All edits so far, as edits of the original texts, in the order of file and place."""
        drafts = sorted(self._drafts.values(), key=lambda draft: draft.original.path)
        return tuple(edit for draft in drafts for edit in draft.edits())

    def text(self, path: str) -> SourceText:
        """The present text of a file; all names of a file give the same text."""
        return self._draft(path).text

    def _draft(self, path: str) -> RewriteDraft:
        # A run records real paths, a person names links; two texts of one file would be edited separately.
        real = os.path.realpath(path)
        if real not in self._drafts:
            self._drafts[real] = RewriteDraft.of(self._read(path))
        return self._drafts[real]

    def text_or_none(self, path: Path) -> SourceText | None:
        """The present text of a file. None if it cannot be read."""
        try:
            return self.text(str(path))
        except SkylineError:
            return None

    def as_profiled(self) -> bool:
        """True if every source is the same now as when it was profiled."""
        for source in self.profile.sources:
            text = self.text_or_none(Path(source.path))
            if text is None or text.text != source.text:
                return False
        return True

    @property
    def program(self) -> Program:
        """The current program."""
        if self._program is None:
            script = self.text(self.profile.script)
            self._program = Program(script, lambda path: self.text(str(path)))
        return self._program

    @property
    def resolver(self) -> Resolver:
        """The current program, ready to be searched."""
        if self._resolver is None:
            self._resolver = Resolver(self.program)
        return self._resolver

    def module(self, path: str) -> Module:
        """One file of the program; raises RewriteRefused if it cannot be read or parsed."""
        program = self.program
        real = os.path.realpath(path)
        known = (each for each in program.modules if os.path.realpath(each.path) == real)
        module = next(known, None) or program.open(Path(path))
        if module is None:
            raise RewriteRefused(f"{path} cannot be read as Python", file=path)
        return module

    def place(self, place: CodeLine) -> tuple[Module, int]:
        """The present place of a line recorded in the run, which may have moved up or down.

        Raises RewriteRefused if the line has changed.
        """
        module, real = self.module(place.file), os.path.realpath(place.file)
        draft = self._draft(place.file)
        profiled = next(
            (source for source in self.profile.sources if os.path.realpath(source.path) == real), None
        )
        moved = place.line
        if profiled is not None and profiled.text != draft.original.text:
            moved = line_map(profiled.text, draft.original.text)(place.line)
            if moved is None and self._tolerant:
                moved = changed_line(profiled.text, draft.original.text, place.line)
        line = None if moved is None else draft.line(moved)
        if line is None:
            message = f"The file changed: line {place.line} is no longer what was profiled"
            raise RewriteRefused(message, file=place.file, line=place.line, hint="Profile it again.")
        return module, line


_LINE_END = re.compile(r"\r\n|\r|\n")
_ALIKE = 0.6
"""Similarity of two lines, from 0 to 1, above which one counts as the changed form of the other."""


def changed_line(old: str, new: str, line: int) -> int | None:
    """The present number of a line that has changed; None if unknown.

    A line that was only indented is found by its words. Any other is looked for between the nearest unchanged
    lines: by its position if there are as many lines as before, else as the most similar line.
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the text; ``start`` is its offset in the original, None for text that a rewrite wrote."""

    text: str
    start: int | None

    def part(self, start: int, end: int) -> _Piece:
        return _Piece(self.text[start:end], None if self.start is None else self.start + start)


@dataclass(frozen=True, slots=True)
class RewriteDraft:
    """The original and the present text of a file; each rewrite edits the text that the previous ones left."""

    original: SourceText
    text: SourceText
    _pieces: tuple[_Piece, ...]

    @classmethod
    def of(cls, original: SourceText) -> RewriteDraft:
        """A draft without changes."""
        return cls(original, original, (_Piece(original.text, 0),))

    def edited(self, edits: Iterable[TextEdit]) -> RewriteDraft:
        """The draft after these edits of its present text; equal edits count once.

        Raises RewriteRefused if they overlap, or replace text that an earlier rewrite wrote.
        """
        asked = tuple(dict.fromkeys(edits))
        text = self.text.apply(asked)  # raises if an edit does not fit the text or another edit
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
        """All changes, as edits of the original in the order of their places."""
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
        """The present number of a line of the original. None if nothing of it is left."""
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


_ON = ("", "true", "1", "yes", "on")


def check_switched_on(name: str, value: str) -> None:
    """Refuses any value but "on", for changes without a value."""
    if value.lower() not in _ON:
        raise RewriteRefused(f"{value!r} is not a value for {name}", hint="Give the name without a value.")


def whole_number(name: str, value: str, least: int = 1) -> int:
    """The number in the value of a change; refused if it is no number, or too small."""
    if not value:
        raise UsageError(f"{name} needs a value", hint=f"Give a whole number of at least {least}.")
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise RewriteRefused(
            f"{value!r} is not a value for {name}", hint=f"Give a whole number from {least}."
        )
    return number


class _File(Protocol):
    @property
    def path(self) -> str: ...


class _Placed(Protocol):
    @property
    def lineno(self) -> int: ...


def refusal(
    message: str, module: _File, node: _Placed, *, hint: str = "", snippet: str = ""
) -> RewriteRefused:
    """The error for a change that is not safe because of ``node``."""
    return RewriteRefused(message, file=module.path, line=node.lineno, hint=hint, snippet=snippet)
