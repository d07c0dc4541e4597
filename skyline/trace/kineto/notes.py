"""Notes on repaired, omitted and missing parts of a file."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from skyline.lazy_dataclass import dataclass


class NoteKind(str, Enum):
    """The treatment of a part of the file."""

    REPAIRED = "repaired"
    LEFT_OUT = "left out"
    CUT_OFF = "cut off"
    DOUBTFUL = "kept as it is"


@dataclass(frozen=True, slots=True)
class Note:
    """One note on the file. ``count`` is the number of affected items; 0 if the note is about the file itself."""

    kind: NoteKind
    text: str
    count: int = 0

    def __str__(self) -> str:
        return f"{self.text}: {self.count} ({self.kind.value})" if self.count else self.text


@dataclass(slots=True)
class Notes:
    """Collects notes while a file is read."""

    _found: dict[tuple[NoteKind, str], int] = field(default_factory=dict[tuple[NoteKind, str], int])

    def say(self, kind: NoteKind, text: str) -> None:
        """Add a note on the file; repetitions are ignored."""
        self._found.setdefault((kind, text), 0)

    def count(self, kind: NoteKind, what: str, count: int = 1) -> None:
        """Add to the number of affected items; a total of zero gives no note."""
        if count:
            self._found[kind, what] = self._found.get((kind, what), 0) + count

    def counted(self, kind: NoteKind, what: str) -> int:
        """The number of items counted so far for a note."""
        return self._found.get((kind, what), 0)

    def all(self) -> tuple[Note, ...]:
        """All notes so far."""
        return tuple(Note(kind, text, count) for (kind, text), count in self._found.items())
