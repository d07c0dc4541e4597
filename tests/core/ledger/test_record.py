"""Conclusions from past errors for a prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from skyline.ledger.ledger import Conditions, LedgerEntry, VerificationStatus
from skyline.ledger.record import correction, track_record, track_records

Make = Callable[..., LedgerEntry]


def test_a_record_counts_what_was_measured_here_for_this_whatif(entry: Make, here: Conditions) -> None:
    elsewhere = replace(here, device="Another CPU")
    entries = [
        entry(1, ratio=0.9),
        entry(2, ratio=1.0, script="/project/other.py"),
        entry(3, ratio=0.89),
        entry(4, ratio=0.5, status=VerificationStatus.DISCARDED),
        entry(5, status=VerificationStatus.ABORTED),
        entry(6, ratio=0.5, machine=elsewhere),
        entry(7, ratio=0.5, machine=replace(here, torch="1.0")),
        entry(8, ratio=0.5, whatif="amp+num_workers"),
    ]

    record = track_record(entries, "num_workers", here)

    assert record is not None
    assert (record.cases, record.scripts, record.discarded, record.held) == (3, 2, 1, 2)
    # Errors: 0, 0.9 / 1.0 - 1 = -0.1 and 0.9 / 0.89 - 1 = 0.011.
    assert record.median_error == pytest.approx(0)
    assert (record.within, record.inside) == (pytest.approx(0.1), 3)
    assert record.correction is None
    assert track_record(entries, "amp", here) is None
    assert {(machine.device, found.whatif) for machine, found in track_records(entries)} == {
        ("Test CPU", "num_workers"),
        ("Another CPU", "num_workers"),
        ("Test CPU", "amp+num_workers"),
    }


def test_the_spread_covers_four_fifths(entry: Make, here: Conditions) -> None:
    ratios = [0.9 / (1 + error) for error in (0.01, -0.02, 0.03, -0.04, 0.5)]
    record = track_record([entry(n, ratio=ratio) for n, ratio in enumerate(ratios)], "num_workers", here)
    assert record is not None
    assert (record.within, record.inside, record.cases) == (pytest.approx(0.04), 4, 5)


def test_a_correction_comes_from_four_cases_on_and_starts_small() -> None:
    assert correction([1.2] * 3) is None
    four, forty = correction([1.2] * 4), correction([1.2] * 40)
    assert four is not None
    assert forty is not None
    assert four.factor == pytest.approx(math.exp(math.log(1.2) * 4 / 6))
    assert four.factor < forty.factor < 1.2
    assert (four.low, four.high) == (four.factor, four.factor)


def test_one_stray_case_does_not_move_a_correction() -> None:
    plain, stray = correction([1.1] * 5), correction([*[1.1] * 4, 5.0])
    assert plain is not None
    assert stray is not None
    assert stray.factor == pytest.approx(plain.factor)


def test_cases_that_scatter_leave_a_wide_correction() -> None:
    found = correction([0.8, 0.9, 1.1, 1.25, 1.0, 1.0])
    assert found is not None
    assert found.low < 0.9 < found.factor < 1.1 < found.high
