"""The command line of ``verify`` and ``ledger``; what they measure is tested where it is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.ledger.ledger import Conditions, Ledger, LedgerEntry, Predicted, VerificationStatus

Run = Callable[..., object]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))
    return Ledger()


def opened(name: str, script: str = "/project/train.py") -> LedgerEntry:
    return LedgerEntry(
        id=name,
        created="2026-01-02T03:04:05+00:00",
        changed="2026-01-02T03:04:05+00:00",
        status=VerificationStatus.OPEN,
        script=script,
        sources_digest="d",
        whatif="num_workers",
        question="num_workers=2",
        profile_id="a1",
        skyline="0.1.0",
        machine=Conditions("Test CPU", 4, 2, "linux", "2.6.0", "3.11"),
        predicted=Predicted(10.0, 9.0, 8.5, 9.5, 1.1, 1e6, 1e6, "exact", False, "d"),
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train.py"], "Name a change to verify"),
        (["train.py", "no_such"], "no what-if 'no_such'"),
        (["train.py", "amp", "--gpu", "h100"], "and this command measures"),
        (["train.py", "amp", "--rounds", "3"], "3 rounds are too few"),
        (["train.py", "amp", "--minutes", "0"], "--minutes: must be more than 0"),
        (["train.py", "amp", "--against", "train.py"], "cannot be combined with what-ifs"),
        (["train.py", "--against", "nowhere.py"], "nowhere.py does not exist"),
    ],
)
def test_what_cannot_be_verified_is_said_before_anything_runs(
    skyline: Run, script: Path, ledger: Ledger, arguments: list[str], said: str
) -> None:
    ran = skyline("verify", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    assert ledger.entries() == ()


def test_a_whatif_that_does_not_apply_is_told_with_its_reason(
    skyline: Run, saved: Path, ledger: Ledger
) -> None:
    ran = skyline("verify", "train.py", "batch_size=1000000")
    assert ran.code == 2
    assert "nothing to verify" in ran.err
    assert ledger.entries() == ()


def test_an_empty_ledger_says_how_to_begin(skyline: Run, ledger: Ledger) -> None:
    assert "skyline verify SCRIPT" in skyline("ledger").out
    assert skyline("ledger", "--path").out.strip() == str(ledger.path)
    assert not ledger.path.exists()


def test_entries_are_listed_written_and_forgotten(skyline: Run, ledger: Ledger) -> None:
    ledger.write(opened("aaa"))
    ledger.write(opened("bbb", script="/project/other.py"))

    ran = skyline("ledger")
    assert "aaa" in ran.out
    assert "num_workers=2" in ran.out
    ran = skyline("ledger", "--script", "/project/other.py", "--json", "-")
    report = json.loads(ran.out)
    assert report["schema"] == "skyline.ledger/1"
    assert [entry["id"] for entry in report["entries"]] == ["bbb"]
    assert report["entries"][0]["predicted"]["iteration_ms"] == 9.0

    assert skyline("ledger", "--forget", "ccc").code == 2
    assert skyline("ledger", "--forget", "aaa").code == 0
    assert [entry.id for entry in ledger.entries()] == ["bbb"]
    skyline("ledger", "--forget", "all")
    assert ledger.entries() == ()


def test_a_damaged_ledger_is_told_and_whatif_answers_all_the_same(
    skyline: Run, saved: Path, ledger: Ledger
) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_bytes(b"no database" * 1000)
    ran = skyline("ledger")
    assert ran.code == 2
    assert "not a database" in ran.err
    ran = skyline("whatif", "train.py", "fused_optimizer")
    assert ran.code == 0
    assert "fused_optimizer" in ran.out
    assert "not a database" in ran.err
    shutil.rmtree(ledger.path.parent)
    assert "database" not in skyline("whatif", "train.py", "fused_optimizer").err
