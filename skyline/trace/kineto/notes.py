"""What reading had to repair, leave out or do without: counted while reading, said in sentences."""

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
    """One sentence about the file. ``count`` events (or other things) are concerned."""

    kind: NoteKind
    text: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.text} ({self.kind.value})"


@dataclass(slots=True)
class Notes:
    """Collects while a file is read; sentences may hold ``{count}``."""

    _found: dict[tuple[NoteKind, str], int] = field(default_factory=dict[tuple[NoteKind, str], int])

    def add(self, kind: NoteKind, text: str, count: int = 1) -> None:
        """Count something; nothing is noted for a count of 0."""
        if count:
            self._found[kind, text] = self._found.get((kind, text), 0) + count

    def all(self) -> tuple[Note, ...]:
        """Every note so far."""
        return tuple(
            Note(kind, text.replace("{count}", str(count)), count)
            for (kind, text), count in self._found.items()
        )
