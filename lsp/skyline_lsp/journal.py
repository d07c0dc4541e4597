"""The changes that were written into a script's code, kept until they are out of it again.

An entry knows its own replacements, so that it is found, and can be taken out, after other edits of the same file,
after a new profile, and in a later session. It is kept in the person's data directory: what a folder that somebody else
made holds must not be written into code.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from skyline.bounded_read import read_bounded
from skyline.ledger.location import ledger_path
from skyline.source.edit import TextEdit
from skyline.source.text import SourceText
from skyline.source.written_change import WrittenChange

logger = logging.getLogger(__name__)

_FOLDER = "changes"
_MOST_ENTRIES = 40
_MOST_BYTES = 4_000_000
"""A journal that is larger is not kept on disk."""

Read = Callable[[str], SourceText | None]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change that was written into the code.

    ``profile`` is the id of the profile that it was predicted from. ``whatifs`` are those it put into the code,
    ``removes`` those it took out, as ``NAME`` or ``NAME=VALUE``.
    """

    label: str
    profile: str
    files: tuple[WrittenChange, ...]
    batch_size: int | None = None
    whatifs: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()

    def is_in(self, read: Read) -> bool:
        """Whether all of it stands in the code."""
        return all((text := read(file.path)) is not None and file.is_in(text.text) for file in self.files)

    def is_undone_in(self, read: Read) -> bool:
        """Whether the code reads in all its places as before it."""
        return all(
            (text := read(file.path)) is not None and file.is_undone_in(text.text) for file in self.files
        )

    def taken_out(self, read: Read) -> tuple[TextEdit, ...] | None:
        """The edits that take it out of the code as it reads now; None where that is not possible exactly."""
        edits: list[TextEdit] = []
        for file in self.files:
            text = read(file.path)
            own = file.taken_out(text) if text is not None else None
            if own is None:
                return None
            edits += own
        return tuple(edits)

    def names(self) -> set[str]:
        """The names of the what-ifs that it put into the code."""
        return {name_of(whatif) for whatif in self.whatifs}


def name_of(whatif: str) -> str:
    """``amp`` of ``amp=bf16``."""
    return whatif.partition("=")[0]


@dataclass(slots=True)
class Journal:
    """The entries of all scripts by path, oldest first; each script's are read from disk when they are first needed."""

    folder: Path = field(default_factory=lambda: ledger_path().with_name(_FOLDER))
    _entries: dict[str, tuple[JournalEntry, ...]] = field(default_factory=dict[str, tuple[JournalEntry, ...]])

    def of(self, script: str, read: Read) -> tuple[JournalEntry, ...]:
        """The entries of a script, some of which may be undone at the moment.

        Of those kept by an earlier session only what is in the code counts.
        """
        if script not in self._entries:
            self._entries[script] = tuple(entry for entry in self._load(script) if entry.is_in(read))
        return self._entries[script]

    def in_code(self, script: str, read: Read) -> tuple[JournalEntry, ...]:
        """The entries that stand in the code."""
        return tuple(entry for entry in self.of(script, read) if entry.is_in(read))

    def push(self, script: str, entry: JournalEntry, read_before: Read) -> None:
        """Remember a change that the client has carried out; ``read_before`` gives the texts that it found.

        What was undone before it cannot be redone any more, and is dropped.
        """
        known = self.in_code(script, read_before)
        self.replace(script, (*known, entry))

    def replace(self, script: str, entries: Iterable[JournalEntry]) -> None:
        """These are the entries of a script from now on."""
        self._entries[script] = tuple(entries)[-_MOST_ENTRIES:]
        self._save(script)

    def _file(self, script: str) -> Path:
        return (
            self.folder / f"{hashlib.sha256(script.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}.json"
        )

    def _load(self, script: str) -> tuple[JournalEntry, ...]:
        try:
            return msgspec.json.decode(
                read_bounded(self._file(script), _MOST_BYTES), type=tuple[JournalEntry, ...]
            )
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
            logger.warning("the changes made in %s before cannot be read: %s", script, error)
            return ()

    def _save(self, script: str) -> None:
        file, entries = self._file(script), self._entries[script]
        try:
            data = msgspec.json.encode(entries)
            if not entries or len(data) > _MOST_BYTES:
                file.unlink(missing_ok=True)
                return
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".part")
            partial.write_bytes(data)
            partial.replace(file)
        except (OSError, UnicodeError) as error:
            logger.warning("the changes made in %s cannot be kept: %s", script, error)
