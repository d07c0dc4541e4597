"""Consents to measure on save: for which script, on what, and for how long; over sessions and servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.source.checkout import Checkout
from skyline_lsp.permission import CONSENT_DAYS, Remembered

DAY_S = 24 * 3600
NOW_S = 1_800_000_000
MAIN, FEATURE, NO_GIT = Checkout("main"), Checkout("feature"), Checkout()
SCRIPT = "/a/train.py"


class Clock:
    def __init__(self) -> None:
        self.days = 0.0

    def __call__(self) -> float:
        return NOW_S + self.days * DAY_S


def test_a_consent_is_for_one_script_on_one_branch_and_outlives_the_session(tmp_path: Path) -> None:
    file = tmp_path / "data" / "scripts.txt"
    first = Remembered(file, Clock())
    assert SCRIPT not in first
    first.add(SCRIPT, MAIN)
    for remembered in (first, Remembered(file, Clock())):
        assert SCRIPT in remembered
        assert remembered.holds(SCRIPT, MAIN)
        assert not remembered.holds(SCRIPT, FEATURE)
        assert not remembered.holds(SCRIPT, Checkout(commit="0" * 40))
        assert not remembered.holds(SCRIPT, NO_GIT)
        assert "/b/train.py" not in remembered


def test_it_lapses_and_can_be_given_again(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "scripts.txt"
    remembered = Remembered(file, clock)
    remembered.add(SCRIPT, MAIN)
    clock.days = CONSENT_DAYS - 0.01
    assert remembered.holds(SCRIPT, MAIN)
    clock.days = CONSENT_DAYS + 0.01
    assert not remembered.holds(SCRIPT, MAIN)
    assert SCRIPT in remembered, "it is asked for again"
    remembered.add(SCRIPT, MAIN)
    assert remembered.holds(SCRIPT, MAIN)
    assert Remembered(file, clock).holds(SCRIPT, MAIN)


def test_a_clock_that_was_wrong_makes_no_consent_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    clock.days = 1000
    remembered = Remembered(tmp_path / "scripts.txt", clock)
    remembered.add(SCRIPT, MAIN)
    clock.days = 0
    assert not remembered.holds(SCRIPT, MAIN)


def test_the_latest_of_several_is_known(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "scripts.txt"
    remembered = Remembered(file, clock)
    for day, checkout in ((0, MAIN), (2, FEATURE), (4, MAIN)):
        clock.days = day
        remembered.add(SCRIPT, checkout)
    latest = Remembered(file, clock).latest(SCRIPT)
    assert latest is not None
    assert latest.checkout == MAIN
    assert latest.given_s == clock()


def test_of_two_in_the_same_second_the_later_is_the_latest(tmp_path: Path) -> None:
    remembered = Remembered(tmp_path / "scripts.txt", Clock())
    for checkout in (MAIN, FEATURE):
        remembered.add(SCRIPT, checkout)
    latest = remembered.latest(SCRIPT)
    assert latest is not None
    assert latest.checkout == FEATURE


def test_what_another_server_is_told_counts_here(tmp_path: Path) -> None:
    file = tmp_path / "scripts.txt"
    here, there = Remembered(file, Clock()), Remembered(file, Clock())
    assert SCRIPT not in here
    there.add(SCRIPT, MAIN)
    assert here.holds(SCRIPT, MAIN)


def test_the_file_of_an_earlier_version_holds_lapsed_consents(tmp_path: Path) -> None:
    file = tmp_path / "scripts.txt"
    file.write_bytes(b"/a/train.py\n\xff\xfe\n\n{broken\n/b/train.py\n")
    remembered = Remembered(file, Clock())
    assert SCRIPT in remembered
    assert "/b/train.py" in remembered
    assert not remembered.holds(SCRIPT, NO_GIT)
    remembered.add(SCRIPT, NO_GIT)
    assert remembered.holds(SCRIPT, NO_GIT)
    assert Remembered(file, Clock()).holds(SCRIPT, NO_GIT)
    assert file.read_bytes().startswith(b"/a/train.py\n"), "nothing is lost for the earlier version"


def test_awkward_paths_stay_one_script(tmp_path: Path) -> None:
    file = tmp_path / "scripts.txt"
    Remembered(file, Clock()).add("/b\n/c.py", MAIN)
    later = Remembered(file, Clock())
    assert "/b\n/c.py" in later
    assert "/c.py" not in later
    # One that is no text is kept in mind for the session.
    later.add("/\udcff.py", MAIN)
    assert later.holds("/\udcff.py", MAIN)


def test_a_file_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = Remembered(tmp_path / "file" / "below.txt", Clock())
    blocked.add(SCRIPT, MAIN)
    assert blocked.holds(SCRIPT, MAIN)


def test_profiling_by_hand_all_day_does_not_make_the_file_grow(tmp_path: Path) -> None:
    file = tmp_path / "scripts.txt"
    remembered = Remembered(file, Clock())
    for _ in range(5):
        remembered.add(SCRIPT, MAIN)
    assert len(file.read_bytes().splitlines()) == 1


def test_of_very_many_the_latest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyline_lsp.permission._MOST", 200)
    file = tmp_path / "scripts.txt"
    remembered = Remembered(file, Clock())
    for number in range(201):
        remembered.add(f"/{number}/train.py", MAIN)
    later = Remembered(file, Clock())
    assert len(file.read_bytes().splitlines()) == 100
    assert "/200/train.py" in later
    assert "/0/train.py" not in later
