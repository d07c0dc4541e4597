"""Measured cases in files of the user: a line of facts about the machine, then one row per case."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from skyline.bounded_read import read_bounded
from skyline.calibrate.case import SIZE_COLUMNS, Case, case_of
from skyline.calibrate.machine import CalibratedDevice
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import ledger_path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_FACTS = "# "
_LARGEST_BYTES = 64 << 20
"""Largest file; a row takes about 100 bytes, and a machine has some thousands."""
_UNQUOTED = re.compile(r"[,\"'\s]+")
COLUMNS: tuple[str, ...] = ("op", "gpu", "dtype", "threads", *SIZE_COLUMNS, "latency_ms", "spread", "note")
"""Columns of the public data that apply to a case, and additional ones; ``gpu`` may be a processor's name."""


@dataclass(frozen=True, slots=True)
class CaseTime:
    """A case and its time. ``time_us`` is None if it failed; ``note`` is the reason."""

    case: Case
    time_us: float | None
    spread: float = 0.0
    note: str = ""


def folder() -> Path:
    """The folder of the files, next to the ledger."""
    return ledger_path().parent / "calibration"


def path_of(machine: CalibratedDevice) -> Path:
    """The file of this machine, which may not exist."""
    return folder() / f"{machine.slug}.csv"


def append(path: Path, machine: CalibratedDevice, measured: Iterable[CaseTime]) -> None:
    """Add rows; each is on disk when this returns.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists() or path.stat().st_size == 0
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if fresh:
                file.write(f"{_FACTS}{msgspec.json.encode(machine).decode()}\n")
                writer.writeheader()
            elif not _ends_with_a_line(path):
                # The last writer was killed within a row.
                file.write("\r\n")
            writer.writerows(_row(machine, one) for one in measured)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Lock the machine for one measuring process: two at once would slow each other down.

    Raises:
        UsageError: another process holds the lock.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise _unwritable(path, error) from error
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    "this machine is being calibrated by another process", hint="Wait for it, or stop it."
                ) from None
        yield


def read(path: Path) -> tuple[CalibratedDevice, tuple[CaseTime, ...]]:
    """Machine and rows of a file; incomplete rows are skipped.

    Raises:
        UsageError: the file is unreadable or of another kind.
    """
    try:
        text = read_bounded(path, _LARGEST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        file = io.StringIO(text, newline="")
        first = file.readline()
        if not first.startswith(_FACTS):
            raise ValueError
        machine = msgspec.json.decode(first[len(_FACTS) :], type=CalibratedDevice)
        return machine, tuple(_rows(csv.DictReader(file)))
    except (ValueError, RecursionError, csv.Error, msgspec.MsgspecError):
        raise UsageError(
            f"{path} is not a file of measured operators", hint="skyline calibrate --export FILE writes one."
        ) from None


def stored() -> tuple[tuple[CalibratedDevice, tuple[CaseTime, ...]], ...]:
    """All measurements made or added here; unusable files are skipped."""
    found: list[tuple[CalibratedDevice, tuple[CaseTime, ...]]] = []
    for path in sorted(folder().glob("*.csv")):
        try:
            found.append(read(path))
        except UsageError:
            continue
    return tuple(found)


def stamps() -> tuple[tuple[str, int], ...]:
    """The files and their modification times: unchanged as long as ``stored`` gives the same result."""
    return tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder().glob("*.csv")))


def _rows(reader: csv.DictReader[str]) -> Iterator[CaseTime]:
    for row in reader:
        case = case_of({key: value for key, value in row.items() if isinstance(value, str)})
        if case is None or None in row.values():
            continue
        try:
            time_us = float(row["latency_ms"]) * 1e3 if row["latency_ms"] else None
            spread = float(row["spread"] or 0)
        except ValueError:
            continue
        if time_us is None or time_us > 0:
            yield CaseTime(case, time_us, spread, row["note"])


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="Set SKYLINE_DATA_DIR to a writable folder with free space.",
    )


def _row(machine: CalibratedDevice, measured: CaseTime) -> dict[str, str | int]:
    latency = "" if measured.time_us is None else f"{measured.time_us / 1e3:.6g}"
    return {
        **measured.case.columns(),
        "gpu": machine.slug,
        "latency_ms": latency,
        "spread": f"{measured.spread:.3g}",
        # No field may need quotes: a row cut off inside quotes would swallow the next.
        "note": _UNQUOTED.sub(" ", measured.note),
    }


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
