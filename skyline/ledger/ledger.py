"""The ledger: stores and finds predictions with their measurements, and derives factors for ranges from them."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment
from skyline.trace.profile import Profile
from skyline.whatif.conformal import ScoredRange, factor_of

if TYPE_CHECKING:
    # Imported only if there is a ledger, since most questions are asked before there is one.
    import sqlite3


class VerificationStatus(str, Enum):
    """The state of a verification.

    ``open``: predicted, not yet measured. ``measured``: valid. ``discarded``: measured, but too inaccurate to count.
    ``aborted``: not measured to the end.
    """

    OPEN = "open"
    MEASURED = "measured"
    DISCARDED = "discarded"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that must agree for two measurements to be comparable; ``torch`` is the version."""

    device: str
    cores: int
    threads: int
    platform: str
    torch: str
    python: str

    @classmethod
    def of(cls, profile: Profile) -> Conditions:
        """The machine of a profile."""
        return cls.at(profile.environment)

    @classmethod
    def at(cls, environment: Environment) -> Conditions:
        """The machine of a run."""
        return cls(
            environment.device.name,
            environment.cpu_count,
            environment.intraop_threads,
            environment.platform,
            environment.torch,
            environment.python,
        )

    def same_as(self, other: Conditions) -> bool:
        """True if both have the same processor or GPU, threads and PyTorch, so that prediction errors agree."""
        return self._key == other._key

    @property
    def _key(self) -> tuple[str, int, int, str, str]:
        return (self.device, self.cores, self.threads, self.platform, self.torch)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction as stored before the measurement; times in ms, ratios relative to the unchanged script."""

    baseline_ms: float
    iteration_ms: float
    low_ms: float
    high_ms: float
    speedup: float
    """Samples per second relative to the unchanged script."""
    baseline_peak_bytes: float
    peak_bytes: float
    semantics: str
    extrapolated: bool
    assumptions_digest: str
    provenance: str = "modelled"
    """Origin of the prediction."""

    @property
    def ratio(self) -> float:
        """The predicted iteration time with the change divided by the time without it."""
        return self.iteration_ms / self.baseline_ms


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement; ``low`` and ``high`` bound the median of the ratio at 95 %, likewise for the null."""

    ratio: float
    ratio_low: float
    ratio_high: float
    null_ratio: float
    null_low: float
    null_high: float
    rounds: int
    baseline_ms: float
    """Iteration time, in ms, of the unchanged script in this verification."""
    others_cores: float = 0.0
    """Average number of cores that other programs used during the measurement."""
    baseline_peak_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A verification. ``whatif`` is the name of the what-if without values; ``question`` includes them.

    ``held`` is true if the measured iteration time was within the predicted interval. ``error`` is the relative error
    of the predicted time (positive: too long, negative: too short). ``created`` and ``changed`` are ISO 8601 with the
    time zone.
    """

    id: str
    created: str
    changed: str
    status: VerificationStatus
    script: str
    sources_digest: str
    """Digest of all sources of the profile: equal digests mean equal programs."""
    whatif: str
    question: str
    profile_id: str
    skyline: str
    machine: Conditions
    predicted: Predicted
    measurement: Measurement | None = None
    error: float | None = None
    held: bool | None = None
    reason: str = ""
    """Reason why the entry was discarded or aborted."""

    @property
    def counts(self) -> bool:
        """True if statistics may use the entry."""
        return self.status is VerificationStatus.MEASURED and self.measurement is not None


def same_script(left: str, right: str) -> bool:
    """True if two paths refer to the same script, with links and relative paths resolved."""
    return os.path.realpath(left) == os.path.realpath(right)


DIRECTORY_VARIABLE = "SKYLINE_DATA_DIR"
_NAME = "ledger.sqlite3"


def ledger_path() -> Path:
    """``SKYLINE_DATA_DIR`` if set, else the system's usual place for a user's data."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named) / _NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "skyline" / _NAME
    # The XDG base directory specification requires relative paths to be ignored.
    given = os.environ.get("XDG_DATA_HOME", "")
    data = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
    return data / "skyline" / _NAME


class LedgerUnusable(UsageError):
    """The file is damaged, locked, of another version, or in a folder without write permission."""


class Ledger:
    """The file at ``path``, by default the user's own. Each action opens it; the first write creates it.

    Every method raises LedgerUnusable if the file cannot be used, with the cause and the next step.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or ledger_path()

    def write(self, entry: LedgerEntry) -> None:
        """Add an entry, or replace the one with the same id."""
        with self._open() as database:
            database.execute(
                f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?)",
                (entry.id, entry.created, msgspec.json.encode(entry).decode()),
            )

    def entries(self, *, script: str | None = None, whatif: str | None = None) -> tuple[LedgerEntry, ...]:
        """Entries, oldest first, of a script and of a what-if, alone or in a combination."""
        if not self.path.exists():
            return ()
        with self._open(read_only=True) as database:
            rows = database.execute(f"SELECT entry FROM {_TABLE} ORDER BY created, id").fetchall()
        try:
            found = [msgspec.json.decode(text, type=LedgerEntry) for (text,) in rows]
        except msgspec.MsgspecError as error:
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
            return database.execute(f"DELETE FROM {_TABLE} WHERE id IN ({marks})", ids).rowcount

    @contextmanager
    def _open(self, *, read_only: bool = False) -> Generator[sqlite3.Connection]:
        import sqlite3

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
            return "Another program is using it; try again in a moment."
        if "readonly" in words or "unable to open" in words:
            return "Name another folder for Skyline's data with SKYLINE_DATA_DIR."
        return f"Move it away to start a new ledger: mv {self.path} {self.path}.damaged"


_VERSION = 3
"""Version number of the table. Fields of an entry may be added with a default, but never change meaning."""
_TABLE = "verification"
_WAIT_S = 10


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file, and create its table if there is none. Concurrent programs wait for each other.

    The file uses SQLite's rollback journal. The write-ahead log needs shared memory, which network drives lack, and it
    is unreadable in a folder without write permission. Transactions take about 1 ms here.

    Raises sqlite3.Error, and UsageError for a file of another version.
    """
    import sqlite3

    name = f"{path.resolve().as_uri()}?mode=ro" if read_only else str(path)
    database = sqlite3.connect(name, uri=read_only, timeout=_WAIT_S, isolation_level=None)
    try:
        if not read_only:
            # Another program may create the table at this moment: check and create in one transaction.
            database.execute("BEGIN IMMEDIATE")
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        if version not in {0, _VERSION}:
            raise UsageError(
                f"The ledger was written by another version of Skyline (format {version}, this one knows {_VERSION})",
                hint=f"Update Skyline, or move it away to start a new ledger: mv {path} {path}.{version}",
            )
        if not read_only:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {_TABLE} (id TEXT PRIMARY KEY, created TEXT NOT NULL, entry TEXT NOT NULL)"
            )
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def range_factors(entries: Iterable[LedgerEntry], machine: Conditions) -> dict[str, float]:
    """The factor for the ranges of each what-if or combination on this machine; needs 20 verifications."""
    cases: defaultdict[str, list[ScoredRange]] = defaultdict(list)
    for entry in entries:
        said, found = entry.predicted, entry.measurement
        if found is None or not entry.counts or not entry.machine.same_as(machine):
            continue
        ends = (said.iteration_ms, said.low_ms, said.high_ms)
        if min(*ends, said.baseline_ms, found.ratio) > 0:
            ratio = Interval(*(end / said.baseline_ms for end in ends))
            cases[entry.whatif].append(ScoredRange(ratio, found.ratio))
    factors = {name: factor_of(own) for name, own in cases.items()}
    return {name: factor for name, factor in factors.items() if factor is not None}
