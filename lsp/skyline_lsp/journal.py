"""Record of the changes that Skyline wrote into a script's code, kept until they are removed.

An entry stores its replacements. It can therefore be found and removed after other edits of the same file, after a
new profile, and in a later session. The journal is in the user's data directory, not next to the script: text from
a folder that somebody else created must not be written into code.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import field
from pathlib import Path

import msgspec

from skyline.bounded_read import read_bounded
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import ledger_path
from skyline.source.text import SourceText, TextEdit
from skyline.source.written_change import WrittenChange

logger = logging.getLogger(__name__)

_FOLDER = "changes"
_MOST_ENTRIES = 40
_MOST_BYTES = 4_000_000
"""A larger journal is not stored on disk."""

Read = Callable[[str], SourceText | None]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change that was written into the code.

    ``profile`` is the id of the profile that the prediction came from. ``whatifs`` are the what-ifs added to the
    code and ``removes`` those removed from it, each as ``NAME`` or ``NAME=VALUE``.
    """

    label: str
    profile: str
    files: tuple[WrittenChange, ...]
    batch_size: int | None = None
    whatifs: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()

    def is_in(self, read: Read) -> bool:
        """True if the whole change is in the code."""
        return all((text := read(file.path)) is not None and file.is_in(text.text) for file in self.files)

    def is_undone_in(self, read: Read) -> bool:
        """True if the code at all its places is as it was before the change."""
        return all(
            (text := read(file.path)) is not None and file.is_undone_in(text.text) for file in self.files
        )

    def taken_out(self, read: Read) -> tuple[TextEdit, ...] | None:
        """The edits that remove the change from the current code. None if it cannot be removed exactly."""
        edits: list[TextEdit] = []
        for file in self.files:
            text = read(file.path)
            own = file.taken_out(text) if text is not None else None
            if own is None:
                return None
            edits += own
        return tuple(edits)

    def names(self) -> set[str]:
        """The names of the what-ifs that the change added to the code."""
        return {name_of(whatif) for whatif in self.whatifs}


def name_of(whatif: str) -> str:
    """The name in a what-if spec: ``amp`` for ``amp=bf16``."""
    return whatif.partition("=")[0]


@dataclass(slots=True)
class Journal:
    """The entries of all scripts by path, oldest first. Each script's entries are read from disk on first use."""

    folder: Path = field(default_factory=lambda: ledger_path().with_name(_FOLDER))
    _entries: dict[str, tuple[JournalEntry, ...]] = field(default_factory=dict[str, tuple[JournalEntry, ...]])

    def of(self, script: str, read: Read) -> tuple[JournalEntry, ...]:
        """The entries of a script, including entries that are currently undone.

        Entries stored by an earlier session are included only if they are in the code.
        """
        if script not in self._entries:
            self._entries[script] = tuple(entry for entry in self._load(script) if entry.is_in(read))
        return self._entries[script]

    def in_code(self, script: str, read: Read) -> tuple[JournalEntry, ...]:
        """The entries that are in the code now."""
        return tuple(entry for entry in self.of(script, read) if entry.is_in(read))

    def push(self, script: str, entry: JournalEntry, read_before: Read) -> None:
        """Add a change that the client has applied. ``read_before`` returns the texts from before the change.

        Entries that were undone before it are dropped, because the editor can no longer redo them.
        """
        known = self.in_code(script, read_before)
        self.replace(script, (*known, entry))

    def replace(self, script: str, entries: Iterable[JournalEntry]) -> None:
        """Replace the entries of a script."""
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
            logger.warning("cannot read the journal of earlier changes in %s: %s", script, error)
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
            logger.warning("cannot write the journal of changes in %s: %s", script, error)
