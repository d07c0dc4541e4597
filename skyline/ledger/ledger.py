"""The ledger: stores predictions, adds measured outcomes, and finds entries."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from skyline.errors import UsageError
from skyline.ledger.entry import LedgerEntry, same_script
from skyline.ledger.location import ledger_path
from skyline.ledger.table import TABLE, connect, from_row, to_row


class LedgerUnusable(UsageError):
    """The file is damaged, locked, of a later version, or in a folder without write permission."""


class Ledger:
    """The file at ``path``, by default the user's own. Each action opens it; the first write creates it.

    Every method raises LedgerUnusable if the file cannot be used, with the cause and the next step.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or ledger_path()

    def write(self, entry: LedgerEntry) -> None:
        """Add an entry, or replace the one with the same id."""
        values = to_row(entry)
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        with self._open() as database:
            database.execute(
                f"INSERT OR REPLACE INTO {TABLE} ({columns}) VALUES ({marks})", tuple(values.values())
            )

    def entries(self, *, script: str | None = None, whatif: str | None = None) -> tuple[LedgerEntry, ...]:
        """Entries, oldest first, of a script and of a what-if, alone or in a combination."""
        if not self.path.exists():
            return ()
        with self._open(read_only=True) as database:
            rows = [dict(row) for row in database.execute(f"SELECT * FROM {TABLE} ORDER BY created, id")]
        try:
            found = [from_row(row) for row in rows]
        except msgspec.ValidationError as error:
            raise LedgerUnusable(f"The ledger {self.path} holds an invalid row: {error}") from error
        return tuple(
            entry
            for entry in found
            if (script is None or same_script(script, entry.script))
            and (whatif is None or whatif in entry.whatif.split("+"))
        )

    def forget(self, ids: tuple[str, ...]) -> int:
        """Delete entries permanently. Returns the number of deleted entries."""
        if not self.path.exists():
            return 0
        with self._open() as database:
            marks = ", ".join("?" * len(ids))
            return database.execute(f"DELETE FROM {TABLE} WHERE id IN ({marks})", ids).rowcount

    @contextmanager
    def _open(self, *, read_only: bool = False) -> Generator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(connect(self.path, read_only=read_only)) as database:
                yield database
        except UsageError as error:
            raise LedgerUnusable(f"{error.message}: {self.path}", hint=error.hint) from error
        except OSError as error:
            raise LedgerUnusable(
                f"The ledger {self.path} cannot be written: {error.strerror or error}",
                hint="Name another folder for Skyline's data with SKYLINE_DATA_DIR.",
            ) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's message may contain the damaged bytes
            raise LedgerUnusable(
                f"The ledger {self.path} cannot be used: {error}", hint=self._hint(error)
            ) from error

    def _hint(self, error: Exception) -> str:
        words = str(error)
        if "locked" in words:
            return "Another program holds it; try again in a moment."
        if "readonly" in words or "unable to open" in words:
            return "Name another folder for Skyline's data with SKYLINE_DATA_DIR."
        return f"Move it away to start a new ledger: mv {self.path} {self.path}.damaged"
