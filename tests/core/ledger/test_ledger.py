"""The file: round trips, files of other versions, damage, and several writers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.ledger.ledger import Ledger, LedgerEntry, LedgerUnusable, VerificationStatus, ledger_path

Make = Callable[..., LedgerEntry]


def test_what_is_written_is_read_again(ledger: Ledger, entry: Make) -> None:
    first, second = entry(1, ratio=0.85), entry(2, whatif="amp+num_workers")
    ledger.write(second)
    ledger.write(first)

    assert ledger.entries() == (first, second)


def test_an_entry_takes_the_place_of_the_one_with_its_id(ledger: Ledger, entry: Make) -> None:
    ledger.write(entry(1))
    closed = replace(entry(1), status=VerificationStatus.ABORTED, reason="interrupted")
    ledger.write(closed)

    assert ledger.entries() == (closed,)
    assert not closed.counts


def test_entries_of_one_script_and_of_one_whatif(ledger: Ledger, entry: Make, tmp_path: Path) -> None:
    script, link = tmp_path / "train.py", tmp_path / "link.py"
    script.touch()
    link.symlink_to(script)
    ledger.write(entry(1, script=str(script)))
    ledger.write(entry(2, whatif="amp+num_workers"))
    ledger.write(entry(3, whatif="amp"))

    assert [found.id for found in ledger.entries(script=str(link))] == ["id0001"]
    assert [found.id for found in ledger.entries(whatif="num_workers")] == ["id0001", "id0002"]


def test_what_is_forgotten_is_gone(ledger: Ledger, entry: Make) -> None:
    for number in (1, 2, 3):
        ledger.write(entry(number))

    assert ledger.forget(("id0001", "id0003", "unknown")) == 2
    assert [found.id for found in ledger.entries()] == ["id0002"]


def test_reading_makes_no_file(ledger: Ledger) -> None:
    assert ledger.entries() == ()
    assert ledger.forget(("x",)) == 0
    assert not ledger.path.parent.exists()


def test_a_damaged_file_is_named_with_the_way_out_and_left_alone(ledger: Ledger, entry: Make) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_bytes(b"this is no database, however long one looks at it" * 100)
    before = ledger.path.read_bytes()

    for act in (lambda: ledger.write(entry(1)), ledger.entries):
        with pytest.raises(LedgerUnusable, match="not a database") as raised:
            act()
        assert f"mv {ledger.path}" in raised.value.hint
    assert ledger.path.read_bytes() == before


def test_a_row_that_is_no_entry_is_told(ledger: Ledger, entry: Make) -> None:
    ledger.write(entry(1))
    with sqlite3.connect(ledger.path) as database:
        database.execute("UPDATE verification SET entry = json_set(entry, '$.status', 'perhaps')")
    with pytest.raises(LedgerUnusable, match="perhaps"):
        ledger.entries()


def test_a_file_of_another_version_is_refused_and_left_alone(ledger: Ledger, entry: Make) -> None:
    ledger.write(entry(1))
    with sqlite3.connect(ledger.path) as database:
        database.execute("PRAGMA user_version = 99")

    for act in (lambda: ledger.write(entry(2)), ledger.entries):
        with pytest.raises(LedgerUnusable, match="another version") as raised:
            act()
        assert "Update Skyline" in raised.value.hint
    with sqlite3.connect(ledger.path) as database:
        assert database.execute("SELECT count(*) FROM verification").fetchone() == (1,)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_where_nothing_can_be_written_is_named(ledger: Ledger, entry: Make, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LedgerUnusable, match="Permission denied") as raised:
            ledger.write(entry(1))
    finally:
        tmp_path.chmod(0o700)
    assert "SKYLINE_DATA_DIR" in raised.value.hint


def test_a_folder_that_is_a_file_is_named(tmp_path: Path, entry: Make) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(LedgerUnusable, match="cannot be written"):
        Ledger(tmp_path / "data" / "ledger.sqlite3").write(entry(1))


def test_a_lock_that_does_not_end_is_told(
    ledger: Ledger, entry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.write(entry(1))
    monkeypatch.setattr("skyline.ledger.ledger._WAIT_S", 0.05)
    holder = sqlite3.connect(ledger.path)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(LedgerUnusable, match="locked") as raised:
            ledger.write(entry(2))
    finally:
        holder.close()
    assert "Another program" in raised.value.hint


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from conftest import entry_of
from skyline.ledger.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]))
for number in range(10):
    ledger.write(replace(entry_of(number), id=f"{sys.argv[2]}-{number}"))
"""


def test_several_programs_write_at_once(ledger: Ledger) -> None:
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(ledger.path), str(name), here], stderr=subprocess.PIPE
        )
        for name in range(3)
    ]
    for writer in writers:
        assert writer.communicate()[1] == b""
        assert writer.returncode == 0

    assert len(ledger.entries()) == 30


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path))
    assert ledger_path() == tmp_path / "ledger.sqlite3"
    monkeypatch.delenv("SKYLINE_DATA_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert ledger_path() == tmp_path / "share" / "skyline" / "ledger.sqlite3"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ledger_path() == tmp_path / ".local" / "share" / "skyline" / "ledger.sqlite3"


def test_damage_within_the_names_of_the_file(tmp_path: Path, entry: Callable[..., LedgerEntry]) -> None:
    """SQLite quotes what it finds in place of them, which need not be text."""
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    ledger.write(entry(1))
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b"verification", b"v\x89rification", 1))
    with pytest.raises(LedgerUnusable, match="cannot be used"):
        ledger.entries()
