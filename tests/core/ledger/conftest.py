"""Entries made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.ledger.ledger import Conditions, Ledger, LedgerEntry, Measurement, Predicted, VerificationStatus

HERE = Conditions("Test CPU", 4, 2, "linux", "2.6.0", "3.11.2")


def measured(ratio: float) -> Measurement:
    return Measurement(ratio, ratio - 0.01, ratio + 0.01, 1.0, 0.99, 1.01, 8, 100.0, 0.1, 2_000, 1_000)


def entry_of(
    number: int,
    *,
    predicted: float = 0.9,
    ratio: float | None = None,
    status: VerificationStatus | None = None,
    whatif: str = "num_workers",
    script: str = "/project/train.py",
    machine: Conditions = HERE,
) -> LedgerEntry:
    """A prediction of ``predicted`` times 100 ms ±5, and where ``ratio`` is given, the measurement of it."""
    time = 100 * predicted
    entry = LedgerEntry(
        id=f"id{number:04}",
        created=f"2026-01-02T03:{number % 60:02}:05+00:00",
        changed=f"2026-01-02T03:{number % 60:02}:45+00:00",
        status=VerificationStatus.OPEN,
        script=script,
        sources_digest="d1",
        whatif=whatif,
        question=f"{whatif}=2",
        profile_id="a1",
        skyline="0.1.0",
        machine=machine,
        predicted=Predicted(100.0, time, time - 5, time + 5, 1 / predicted, 2e3, 1e3, "exact", False, "d2"),
    )
    if ratio is not None:
        error, held = predicted / ratio - 1, abs(100 * ratio - time) <= 5
        entry = replace(
            entry, status=VerificationStatus.MEASURED, measurement=measured(ratio), error=error, held=held
        )
    return replace(entry, status=status) if status is not None else entry


@pytest.fixture
def entry() -> Callable[..., LedgerEntry]:
    return entry_of


@pytest.fixture
def here() -> Conditions:
    return HERE


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "data" / "ledger.sqlite3")
