"""The last good figures: the figures of the profile before a fault, and the entries of the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fault_command import Ended, Lost

from skyline.errors import SkylineError
from skyline.ledger.ledger import Conditions, Ledger, LedgerEntry, Predicted, VerificationStatus
from skyline.trace import store

_ENTRIES = 24
_FAR = 100.0
"""Factor of slower or faster iterations that no load of the machine can cause."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A displayed profile: its id, and its iteration time."""

    id: str
    iteration_ms: float


def figures(shown: Ended) -> Figures:
    """The figures in the JSON output of ``show``. Raises Lost if there are none."""
    try:
        report = json.loads(shown.output)
        return Figures(report["id"], float(report["iteration_ms"]["value"]))
    except (ValueError, KeyError, TypeError):
        raise Lost(f"the saved figures cannot be shown: {shown.last_line}") from None


def check_figures(good: Figures, shown: Figures, new: Sequence[Path]) -> None:
    """Raise Lost unless the figures are the last good ones, or belong to a run that was saved later."""
    if shown == good:
        return
    if shown.id == good.id:
        raise Lost(f"the same profile shows {shown.iteration_ms:g} ms instead of {good.iteration_ms:g}")
    found = [path for path in new if path.name == store.name_of(Path("train.py"), shown.id)]
    if not found:
        raise Lost(f"figures of unknown origin are shown: {shown.id}")
    try:
        store.load(found[0])
    except SkylineError as error:
        raise Lost(f"the displayed profile cannot be read: {error}") from None
    if not good.iteration_ms / _FAR < shown.iteration_ms < good.iteration_ms * _FAR:
        raise Lost(f"an iteration takes {shown.iteration_ms:g} ms instead of {good.iteration_ms:g}")


def seed(path: Path) -> None:
    """Write predictions into the ledger, as verifications do, until the file has several pages."""
    ledger = Ledger(path)
    for number in range(_ENTRIES):
        ledger.write(_entry(number))


def check_ledger(path: Path) -> None:
    """Raise Lost if an entry is missing or has changed."""
    try:
        entries = Ledger(path).entries()
    except SkylineError as error:
        raise Lost(f"the ledger cannot be read: {error}") from None
    if [entry for entry in entries if entry.id.startswith("id")] != list(map(_entry, range(_ENTRIES))):
        raise Lost("entries of the ledger are missing")


def _entry(number: int) -> LedgerEntry:
    return LedgerEntry(
        id=f"id{number:04}",
        created=f"2026-01-02T03:{number:02}:05+00:00",
        changed=f"2026-01-02T03:{number:02}:45+00:00",
        status=VerificationStatus.OPEN,
        script="/project/train.py",
        sources_digest="d1",
        whatif="num_workers",
        question="num_workers=2",
        profile_id="a1",
        skyline="0.1.0",
        machine=Conditions("Test CPU", 4, 2, "linux", "2.6.0", "3.11.2"),
        predicted=Predicted(
            baseline_ms=100.0,
            iteration_ms=90.0,
            low_ms=85.0,
            high_ms=95.0,
            speedup=1.1,
            baseline_peak_bytes=2e3,
            peak_bytes=1e3,
            semantics="exact",
            extrapolated=False,
            assumptions_digest="d2",
        ),
    )
