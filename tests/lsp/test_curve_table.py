"""The curve as a table: which rows, how they are known, and what is said of memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.interval import Interval
from skyline.report.build import profile_report
from skyline.trace.store import load
from skyline.whatif.question import CurvePoint, Question
from skyline_lsp.curve_table import curve_table, largest_that_fits, point_of

PROFILE = load(Path(__file__).parents[1] / "data" / "linear.profile.json.gz")


def analysis(memory_bytes: int | None = None) -> Analysis:
    """The recorded profile, as if it had been made on a machine with this much memory."""
    if memory_bytes is None:
        return analyse(PROFILE)
    environment = dataclasses.replace(PROFILE.environment, memory_capacity_bytes=memory_bytes)
    return analyse(dataclasses.replace(PROFILE, environment=environment))


def rows(table: str) -> dict[int, list[str]]:
    """Cells by batch size, without the marks."""
    cells = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return {int(row[0]): row for row in cells[2:]}


def test_every_point_has_its_numbers_and_how_they_are_known() -> None:
    known = analysis()
    report = profile_report(known)
    table = curve_table(report, report.curve, current=16, largest=None)
    found = rows(table)
    assert list(found) == [4, 8, 16, 24, 32, 64, 128]
    assert found[16] == ["16", "32904 (23824–55751)", "0.49 ±0.19", "13.3", "measured, in the code"]
    assert found[24][4] == "interpolated"
    assert found[64][1] == "93467 (49241–269181)"
    assert found[128][4] == "extrapolated"
    assert "| batch size | samples/s | ms per iteration | peak memory, MB | basis |" in table
    assert [line for line in table.splitlines() if "**16**" in line and line.startswith("| **16** |")]
    assert table.count("in the code") == 1
    assert "measured" in table.splitlines()[-1]
    assert "largest" not in table, "all of the curve fits, so that nothing is known of larger ones"


def test_a_size_between_the_points_is_put_among_them() -> None:
    known = analysis()
    report = profile_report(known)
    point = point_of(estimate(known, Question(batch_size=48)), 48)
    assert point is not None
    found = rows(curve_table(report, (*report.curve, point), current=48, largest=None))
    assert list(found) == [4, 8, 16, 24, 32, 48, 64, 128]
    assert found[48][4] == "interpolated, in the code"
    assert found[16][4] == "measured"


@pytest.mark.parametrize(
    ("memory_bytes", "largest"),
    # The peaks: 13,255,472 at 32, 13,284,008 at 64, from there to 14,141,545 at 128.
    [
        (None, None),
        (14_500_000, None),
        (14_000_000, 64),
        (13_284_008, 64),
        (13_270_000, 32),
        (13_000_000, None),
    ],
)
def test_the_largest_that_fits_is_told_only_where_a_larger_one_may_not(
    memory_bytes: int | None, largest: int | None
) -> None:
    known = analysis(memory_bytes)
    assert largest_that_fits(known) == largest
    report = profile_report(known)
    table = curve_table(report, report.curve, current=16, largest=largest_that_fits(known))
    if largest is None:
        assert "largest" not in table
    else:
        assert rows(table)[largest][4].endswith("largest that fits")
        assert f"{largest} is the largest of these sizes that fits into {memory_bytes / 1e6:.1f} MB" in table


def test_a_dozen_rows_at_most_and_none_of_those_that_matter_is_left_out() -> None:
    report = profile_report(analysis())
    many = tuple(
        CurvePoint(
            size, Interval.exact(1.0), Interval.exact(1e3 * size), Interval.exact(1e6), size in (8, 40), False
        )
        for size in range(1, 41)
    )
    found = rows(curve_table(report, many, current=23, largest=31))
    assert len(found) == 12
    assert {1, 8, 23, 31, 40} <= set(found)
    assert list(found) == sorted(found)


def test_no_curve_no_table_and_a_stale_one_says_so() -> None:
    report = profile_report(analysis())
    assert curve_table(report, (), current=16, largest=None) == ""
    assert "the code changed since" in curve_table(report, report.curve, current=16, largest=None, stale=True)
