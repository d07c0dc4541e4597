"""The difference between processes: results pages give the product's constant, within its range."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.interval import Interval
from skyline.whatif.subject import BETWEEN_PROCESSES

pytest.importorskip("tomllib", reason="the lists of scripts are read by Python 3.11 and later")


def test_the_constant_is_that_of_the_pages() -> None:
    from process_spread import largest, pairs
    from range_rows import held_out
    from result_file import RESULTS

    setting = [one for one in pairs(RESULTS) if one.script not in held_out()]
    assert len(setting) >= 50
    # New measurements move it, within the range that it states.
    assert BETWEEN_PROCESSES.low <= largest(setting) <= BETWEEN_PROCESSES.high
    named = {Path(path).name for path in BETWEEN_PROCESSES.set_on}
    assert {Path(one.script).name for one in setting} - named <= {"main.py"}, "main.py is of a repository"


def test_the_machine_whose_processes_differ_most_counts() -> None:
    from process_spread import Pair, largest, quantile

    steady = [Pair("page", "one", f"script {number}", 1.01) for number in range(90)]
    restless = [Pair("page", "other", f"script {number}", 1.1) for number in range(10)]
    assert quantile([*steady, *restless]) == pytest.approx(0.00995, rel=1e-3)
    assert largest([*steady, *restless]) == pytest.approx(0.0953, rel=1e-3)


def test_a_range_that_has_the_difference_already_stays() -> None:
    from range_rows import Change

    said = Interval(0.8, 0.77, 0.84)
    before, after = (Change("page", "a.py", ("amp",), said, 0.8, spread) for spread in (0.0, 0.05))
    same = after.ranged(0.05)
    assert same.ends == pytest.approx(said.ends)
    wide = before.ranged(0.05)
    assert wide.low == pytest.approx(0.8 - (0.03**2 + 0.04**2) ** 0.5)
    assert wide.high == pytest.approx(0.8 + (0.04**2 + 0.04**2) ** 0.5)
