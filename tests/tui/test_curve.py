"""The batch-size curve with its band."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline_tui.widgets.curve import Curve

SIZE = (120, 40)


def rows(profile: ProfileReport, width: int = 90) -> dict[str, str]:
    curve = Curve()
    curve._profile = profile
    return {size: content.plain for size, content in curve.rows(width)}


def unsure(point: CurvePointReport, below: float, above: float) -> CurvePointReport:
    value = point.throughput.value
    return replace(point, throughput=Interval(value, value * (1 - below), value * (1 + above)))


def test_the_band_reaches_from_the_low_end_to_the_high_end(profile_of_script: ProfileReport) -> None:
    shown = replace(
        profile_of_script, curve=tuple(unsure(point, 0.25, 0.1) for point in profile_of_script.curve)
    )
    best = max(point.throughput.value for point in shown.curve)
    for point in shown.curve:
        row = rows(shown)[str(point.batch_size)]
        assert row[0] == ("●" if point.measured else "?" if point.extrapolated else "○")
        solid, band = row.count("▇"), row.count("░")
        assert row.count("┃") == 1
        assert (solid + band + 1) / solid == pytest.approx(1.1 / 0.75, rel=0.12)
        assert row.index("▇") < row.index("░") < row.rindex("░")
        room = 90 - 10 - len(row[row.rindex("░") + 1 :].strip())
        assert (solid + band) / room == pytest.approx(point.throughput.value / best, rel=0.15)


def test_what_is_exact_has_no_band(profile_of_script: ProfileReport) -> None:
    exact = replace(profile_of_script, curve=tuple(unsure(point, 0, 0) for point in profile_of_script.curve))
    assert all("▇" in row and "░" not in row and "┃" not in row for row in rows(exact).values())


@pytest.mark.parametrize("width", [20, 30, 40, 60, 200])
def test_a_row_fits_its_width_where_its_numbers_do(profile_of_script: ProfileReport, width: int) -> None:
    wild = replace(profile_of_script, curve=tuple(unsure(one, 0.9, 9.0) for one in profile_of_script.curve))
    for row in rows(wild, width).values():
        assert len(row) <= max(width, 40)
        assert " samples" not in row


def test_a_size_that_may_not_fit_is_marked(profile_of_script: ProfileReport) -> None:
    peak = sorted(point.peak_bytes.value for point in profile_of_script.curve)[-2]
    tight = replace(profile_of_script, memory=replace(profile_of_script.memory, usable_bytes=int(peak)))
    marked = [size for size, row in rows(tight).items() if row.endswith("!")]
    assert marked == [str(max(point.batch_size for point in profile_of_script.curve))]


async def test_under_whatifs_the_curve_is_that_with_them(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        curve = made.app.query_one(Curve)
        plain = [str(option.prompt) for option in curve.options]
        assert "╎" not in "".join(plain)
        await pilot.press("space")
        await pilot.pause()
        (checked,) = made.app.query_one("Workbench").question.whatifs
        assert checked in str(curve.border_title)
        with_it = [str(option.prompt) for option in curve.options]
        assert with_it != plain
        assert "╎" in "".join(with_it)
        assert "●" not in "".join(with_it)
        await pilot.press("space")
        await pilot.pause()
        assert [str(option.prompt) for option in curve.options] == plain
