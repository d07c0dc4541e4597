"""An entry that cannot be written down does not stop a verification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skyline.ledger.ledger import Conditions, Ledger, LedgerEntry, Predicted, VerificationStatus
from skyline.verification.verify import Kept

ENTRY = LedgerEntry(
    id="aaa",
    created="2026-01-02T03:04:05+00:00",
    changed="",
    status=VerificationStatus.OPEN,
    script="/project/train.py",
    sources_digest="d",
    whatif="num_workers",
    question="num_workers=2",
    profile_id="a1",
    skyline="0.1.0",
    machine=Conditions("Test CPU", 4, 2, "linux", "2.6.0", "3.11"),
    predicted=Predicted(10.0, 9.0, 8.5, 9.5, 1.1, 1e6, 1e6, "exact", False, "d"),
)


def test_an_entry_is_written_at_once_and_again_when_it_changes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    kept = Kept(ledger, ENTRY)
    (first,) = ledger.entries()
    assert (first.status, first.predicted) == (VerificationStatus.OPEN, ENTRY.predicted)
    assert first.changed

    kept.put(replace(kept.entry, status=VerificationStatus.ABORTED, reason="interrupted"))

    assert ledger.entries() == (kept.entry,)
    assert kept.path == str(ledger.path)
    assert kept.problem == ""


def test_a_ledger_that_cannot_be_used_is_told_once_and_the_entry_goes_on(tmp_path: Path) -> None:
    damaged = tmp_path / "ledger.sqlite3"
    damaged.write_bytes(b"no database" * 1000)

    kept = Kept(Ledger(damaged), ENTRY)
    kept.put(replace(kept.entry, status=VerificationStatus.ABORTED))

    assert kept.entry.status is VerificationStatus.ABORTED
    assert kept.path == ""
    assert "not a database" in kept.problem
    assert f"mv {damaged}" in kept.problem


def test_without_a_ledger_nothing_is_written() -> None:
    kept = Kept(None, ENTRY)
    assert (kept.path, kept.problem, kept.entry.id) == ("", "", "aaa")
