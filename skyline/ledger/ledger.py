"""The ledger: stores predictions, adds measured outcomes, and finds entries."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from skyline.errors import UsageError
from skyline.ledger.entry import Conditions, LedgerEntry, Measurement, Predicted, same_script
from skyline.ledger.location import ledger_path


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


SCHEMA_VERSION = 2
"""Version number, raised with every change of columns. Columns may be added or dropped, but never change meaning."""
TABLE = "verification"
_DROPPED = ("predicted_basis",)
_WAIT_S = 10
_PARTS: dict[str, type] = {"machine": Conditions, "predicted": Predicted, "measurement": Measurement}
_PREFIXES = {"machine": "machine", "predicted": "predicted", "measurement": "measured"}
_TYPES: dict[object, str] = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL"}
_DEFAULTS = {"TEXT": "''", "INTEGER": "0", "REAL": "0"}


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file and update its table to this version. Concurrent programs wait for each other.

    The file uses SQLite's rollback journal. The write-ahead log needs shared memory, which network drives lack, and it
    is unreadable in a folder without write permission. Transactions take about 1 ms here.

    Raises sqlite3.Error, and UsageError for a file of a later version.
    """
    name = f"{path.resolve().as_uri()}?mode=ro" if read_only else str(path)
    database = sqlite3.connect(name, uri=read_only, timeout=_WAIT_S, isolation_level=None)
    try:
        database.row_factory = sqlite3.Row
        if read_only:
            _refuse_later_version(database)
        else:
            # Another program may create the table at this moment: check and create in one transaction.
            database.execute("BEGIN IMMEDIATE")
            _bring_up_to_date(database)
            database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def to_row(entry: LedgerEntry) -> dict[str, Any]:
    """Values of an entry by column."""
    values = asdict(entry)
    for part, prefix in _PREFIXES.items():
        inner: dict[str, Any] = values.pop(part) or {}
        values.update({f"{prefix}_{name}": value for name, value in inner.items()})
    return {**values, "status": entry.status.value}


def from_row(row: Mapping[str, Any]) -> LedgerEntry:
    """The entry in a row. Raises msgspec.ValidationError for a row that Skyline did not write."""
    values: dict[str, Any] = {name: row[name] for name in _columns_of(LedgerEntry) if name in row}
    for part, prefix in _PREFIXES.items():
        named = {name: row.get(f"{prefix}_{name}") for name in _columns_of(_PARTS[part])}
        values[part] = {name: value for name, value in named.items() if value is not None}
    if row.get("measured_ratio") is None:
        values["measurement"] = None
    return msgspec.convert(values, LedgerEntry, strict=False)


def _columns_of(kind: type) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in _PARTS]


def _declarations() -> dict[str, str]:
    """The SQL type of each column. Optional columns, and those of a measurement, may be null."""
    found: dict[str, str] = {}
    for kind, prefix in (
        (LedgerEntry, ""),
        *((_PARTS[part], f"{name}_") for part, name in _PREFIXES.items()),
    ):
        hints = get_type_hints(kind)
        defaults = {field.name: field.default for field in fields(kind)}
        for name in _columns_of(kind):
            either = get_args(hints[name])
            declared = _TYPES.get(either[0] if either else hints[name], "TEXT")
            if not either and kind is not Measurement:
                default = f"'{own}'" if isinstance(own := defaults[name], str) else _DEFAULTS[declared]
                declared += f" NOT NULL DEFAULT {default}"
            found[prefix + name] = declared
    return {**found, "id": "TEXT NOT NULL PRIMARY KEY"}


def _refuse_later_version(database: sqlite3.Connection) -> None:
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"The ledger was written by a later version of Skyline (format {version}, this one knows "
            f"{SCHEMA_VERSION})",
            hint="Update Skyline, or name another folder for its data with SKYLINE_DATA_DIR.",
        )


def _bring_up_to_date(database: sqlite3.Connection) -> None:
    _refuse_later_version(database)
    declarations = _declarations()
    present = {row["name"] for row in database.execute(f"PRAGMA table_info({TABLE})")}
    if not present:
        columns = ", ".join(f"{name} {declared}" for name, declared in declarations.items())
        database.execute(f"CREATE TABLE {TABLE} ({columns})")
    else:
        for name, declared in declarations.items():
            if name not in present:
                database.execute(f"ALTER TABLE {TABLE} ADD COLUMN {name} {declared}")
        for name in present.intersection(_DROPPED):
            database.execute(f"ALTER TABLE {TABLE} DROP COLUMN {name}")
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
