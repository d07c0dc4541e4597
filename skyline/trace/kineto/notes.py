"""What reading had to repair, leave out or do without."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class NoteKind(str, Enum):
    """What happened to a part of the file."""

    REPAIRED = "repaired"
    LEFT_OUT = "left out"
    CUT_OFF = "cut off"
    DOUBTFUL = "kept as it is"


@dataclass(frozen=True, slots=True)
class Note:
    """One remark about the file. ``count`` things are concerned; 0 where it is about the file itself."""

    kind: NoteKind
    text: str
    count: int = 0

    def __str__(self) -> str:
        return f"{self.text}: {self.count} ({self.kind.value})" if self.count else self.text


@dataclass(slots=True)
class Notes:
    """Collects remarks while a file is read."""

    _found: dict[tuple[NoteKind, str], int] = field(default_factory=dict[tuple[NoteKind, str], int])

    def say(self, kind: NoteKind, text: str) -> None:
        """Remark something about the file, once however often it is said."""
        self._found.setdefault((kind, text), 0)

    def count(self, kind: NoteKind, what: str, count: int = 1) -> None:
        """Count things that something happened to; none are worth no remark."""
        if count:
            self._found[kind, what] = self._found.get((kind, what), 0) + count

    def counted(self, kind: NoteKind, what: str) -> int:
        """How many things were counted so far under a remark."""
        return self._found.get((kind, what), 0)

    def all(self) -> tuple[Note, ...]:
        """Every remark so far."""
        return tuple(Note(kind, text, count) for (kind, text), count in self._found.items())
