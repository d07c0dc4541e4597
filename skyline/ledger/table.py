"""The ledger's table: one row for each entry, and files of earlier versions brought up to date."""

# Much of peewee takes and gives whatever a column holds, and its type stubs leave it open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import peewee
from playhouse.migrate import SqliteMigrator, migrate

from skyline.errors import UsageError
from skyline.ledger.entry import Conditions, LedgerEntry, Measurement, Predicted, VerificationStatus

SCHEMA_VERSION = 1
"""Raised with every change of the columns; a column may be added, never given another meaning."""
_WAIT_S = 10


class Row(peewee.Model):
    """An entry as a row; ``machine``, ``predicted`` and ``measured`` are the prefixes of the parts of an entry."""

    id = peewee.TextField(primary_key=True)
    created = peewee.TextField(index=True)
    changed = peewee.TextField()
    status = peewee.TextField()
    script = peewee.TextField()
    sources_digest = peewee.TextField(default="")
    whatif = peewee.TextField(index=True)
    question = peewee.TextField()
    profile_id = peewee.TextField(default="")
    skyline = peewee.TextField(default="")
    machine_device = peewee.TextField(default="")
    machine_cores = peewee.IntegerField(default=0)
    machine_threads = peewee.IntegerField(default=0)
    machine_platform = peewee.TextField(default="")
    machine_torch = peewee.TextField(default="")
    machine_python = peewee.TextField(default="")
    predicted_baseline_ms = peewee.FloatField()
    predicted_iteration_ms = peewee.FloatField()
    predicted_low_ms = peewee.FloatField()
    predicted_high_ms = peewee.FloatField()
    predicted_speedup = peewee.FloatField(default=1.0)
    predicted_baseline_peak_bytes = peewee.FloatField(default=0.0)
    predicted_peak_bytes = peewee.FloatField(default=0.0)
    predicted_basis = peewee.TextField(default="")
    predicted_semantics = peewee.TextField(default="")
    predicted_extrapolated = peewee.BooleanField(default=False)
    predicted_assumptions_digest = peewee.TextField(default="")
    measured_ratio = peewee.FloatField(null=True)
    measured_ratio_low = peewee.FloatField(null=True)
    measured_ratio_high = peewee.FloatField(null=True)
    measured_null_ratio = peewee.FloatField(null=True)
    measured_null_low = peewee.FloatField(null=True)
    measured_null_high = peewee.FloatField(null=True)
    measured_rounds = peewee.IntegerField(null=True)
    measured_baseline_ms = peewee.FloatField(null=True)
    measured_others_cores = peewee.FloatField(null=True)
    measured_baseline_peak_bytes = peewee.BigIntegerField(null=True)
    measured_peak_bytes = peewee.BigIntegerField(null=True)
    error = peewee.FloatField(null=True)
    held = peewee.BooleanField(null=True)
    reason = peewee.TextField(default="")

    class Meta:
        """The table's name; the database is named by whoever uses it."""

        table_name = "verification"


def connect(path: Path, *, readable_only: bool = False) -> peewee.SqliteDatabase:
    """The file, open and up to date; several programs may use it at once, each waiting for the others.

    SQLite's rollback journal, not its write-ahead log: that one needs shared memory, which network drives lack, and
    cannot be read where nothing may be written. Our transactions take a millisecond.
    Raises peewee's errors, and UsageError for the file of a later version.
    """
    if readable_only:
        database = peewee.SqliteDatabase(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)
        database.connect()
        try:
            _refuse_later(database)
        except BaseException:
            database.close()
            raise
        return database
    database = peewee.SqliteDatabase(str(path), timeout=_WAIT_S)
    database.connect()
    try:
        # Another program may be making the table at this moment: look and make in one transaction.
        with database.atomic("IMMEDIATE"):
            _bring_up_to_date(database)
    except BaseException:
        database.close()
        raise
    return database


def to_row(entry: LedgerEntry) -> dict[str, Any]:
    """An entry as values by column."""
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    parts: dict[str, object] = {
        "machine": values.pop("machine"),
        "predicted": values.pop("predicted"),
        "measured": values.pop("measurement"),
    }
    for prefix, part in parts.items():
        if part is not None:
            values.update(_prefixed(prefix, part))
    return {**values, "status": entry.status.value}


def from_row(row: Mapping[str, Any]) -> LedgerEntry:
    """The entry of a row. Raises ValueError for a row that no version of ours wrote."""
    values: dict[str, Any] = {name: row[name] for name in _plain_columns() if name in row}
    values["status"] = VerificationStatus(row["status"])
    measured = _part("measured", Measurement, row) if row.get("measured_ratio") is not None else None
    return LedgerEntry(
        **values,
        machine=_part("machine", Conditions, row),
        predicted=_part("predicted", Predicted, row),
        measurement=measured,
    )


def _plain_columns() -> list[str]:
    return [
        field.name
        for field in fields(LedgerEntry)
        if field.name not in {"machine", "predicted", "measurement"}
    ]


def _prefixed(prefix: str, part: Any) -> dict[str, object]:
    return {f"{prefix}_{field.name}": getattr(part, field.name) for field in fields(part)}


def _part(prefix: str, kind: Any, row: Mapping[str, Any]) -> Any:
    named = {field.name: row.get(f"{prefix}_{field.name}") for field in fields(kind)}
    return kind(**named)


def _version(database: peewee.SqliteDatabase) -> int:
    return int(database.execute_sql("PRAGMA user_version").fetchone()[0])


def _refuse_later(database: peewee.SqliteDatabase) -> None:
    version = _version(database)
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"The ledger was written by a later version of Skyline (format {version}, this one knows "
            f"{SCHEMA_VERSION})",
            hint="Update Skyline, or name another folder for its data with SKYLINE_DATA_DIR.",
        )


def _bring_up_to_date(database: peewee.SqliteDatabase) -> None:
    """Make the table, or give one of an earlier version the columns that it lacks, with what they mean for old rows."""
    _refuse_later(database)
    with database.bind_ctx([Row]):
        table: str = "verification"
        if not database.table_exists(table):
            database.create_tables([Row])
        else:
            present = {column.name for column in database.get_columns(table)}
            migrator = SqliteMigrator(database)
            wanted: dict[str, peewee.Field] = Row._meta.fields
            migrate(
                *(
                    migrator.add_column(table, name, field)
                    for name, field in wanted.items()
                    if name not in present
                )
            )
    database.execute_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
