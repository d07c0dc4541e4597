"""What-ifs in words and colours: no gain without a range that says so, and what a change costs once."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from skyline.interval import Interval
from skyline.report.basis import (
    baseline_doubt,
    direction,
    is_known,
    not_clear,
    range_cell,
    speedup_cell,
    speedup_words,
)
from skyline.report.document import Paragraph, TextTable
from skyline.report.pages.whatifs import whatif_sections, whatifs_page
from skyline.report.schema import BestReport, EstimateReport, WhatIfReport
from skyline.report.terminal import print_document
from skyline.whatif.question import speedup_range

GREEN, RED = "32", "31"


def shown(report: WhatIfReport, *, colour: bool = False, detail: bool = False, width: int = 110) -> str:
    page = Console(
        file=io.StringIO(), width=width, highlight=False, force_terminal=colour, color_system="standard"
    )
    print_document(
        whatifs_page(report, subject=("train.py, measured",), script="train.py", detail=detail), page
    )
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def with_change(estimate: EstimateReport, change: float, half: float) -> EstimateReport:
    changed = Interval(change, change - half, change + half)
    speedup = 182.4 / (182.4 + change)
    return replace(
        estimate, change_ms=changed, speedup=speedup, speedup_range=speedup_range(speedup, 182.4, changed)
    )


@pytest.mark.parametrize(
    ("change", "half", "colour"),
    [(-19.0, 4.0, GREEN), (-3.0, 4.0, ""), (0.0, 0.0, ""), (3.0, 4.0, ""), (19.0, 4.0, RED)],
)
def test_green_and_red_are_for_what_the_range_leaves_no_doubt_about(
    whatif_report: WhatIfReport, change: float, half: float, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    one = with_change(whatif_report.estimates[0], change, half)
    page = shown(replace(whatif_report, estimates=(one,), combined=None), colour=True)
    (row,) = (line for line in page.splitlines() if "num_workers=2" in line)
    ratio = f"{one.speedup:.2f}x"
    found = re.search(r"\x1b\[([0-9;]*)m\s*" + re.escape(ratio), row)
    assert (found[1] if found else "") == colour, row


def test_a_speedup_range_is_that_of_the_change_alone() -> None:
    found = speedup_range(1.25, 100.0, Interval(-20.0, -30.0, 5.0))
    assert (found.low, found.value, found.high) == pytest.approx((100 / 105, 1.25, 100 / 70))
    assert direction(found) == ""
    assert direction(speedup_range(1.25, 100.0, Interval(-20.0, -30.0, -5.0))) == "better"
    assert direction(speedup_range(100 / 108, 100.0, Interval(8.0, 1.0, 9.0))) == "worse"
    assert direction(None) == ""


@pytest.mark.parametrize(
    ("low", "high", "known"),
    [(0.28, 3.56, False), (0.5, 2.0, False), (0.6, 1.8, True), (1.1, 9.0, True), (0.1, 0.9, True)],
)
def test_a_range_from_half_to_twice_the_speed_tells_nothing(low: float, high: float, known: bool) -> None:
    assert is_known(Interval((low + high) / 2, low, high)) is known


def test_a_range_with_no_change_in_it_is_said_to_be_no_clear_gain(whatif_report: WhatIfReport) -> None:
    for low, high, said in ((0.9, 1.2, True), (1.02, 1.2, False), (0.8, 0.97, False), (0.28, 3.56, False)):
        one = replace(
            whatif_report.estimates[0],
            speedup=(low + high) / 2,
            speedup_range=Interval((low + high) / 2, low, high),
        )
        page = shown(replace(whatif_report, estimates=(one,), combined=None), detail=True)
        assert ("no clear gain" in page) is said
    assert not_clear(None) == not_clear(Interval.exact(1.0)) == ""


def test_a_range_that_tells_nothing_is_shown_as_not_known(whatif_report: WhatIfReport) -> None:
    wide = Interval(0.72, 0.28, 3.56)
    assert speedup_words(0.72, wide) == "not known (0.28–3.56x)"
    one = replace(whatif_report.estimates[0], speedup=0.72, speedup_range=wide)
    page = shown(replace(whatif_report, estimates=(one,), combined=None))
    (row,) = (line for line in page.splitlines() if "num_workers=2" in line)
    assert "not known" in row
    assert "0.28–3.56x" in row
    assert "0.72" not in row


def test_a_short_list_names_changes_with_little_gain_in_one_line(whatif_report: WhatIfReport) -> None:
    first = whatif_report.estimates[0]
    peak = whatif_report.baseline.peak.value

    def made(
        name: str, speedup: float, saved: float = 0.0, ends: tuple[float, float] | None = None
    ) -> EstimateReport:
        low, high = ends or (speedup, speedup)
        return replace(
            first,
            name=name,
            value="",
            speedup=speedup,
            speedup_range=Interval(speedup, low, high),
            peak_bytes=Interval.exact(peak - saved),
        )

    estimates = (
        made("gains", 1.02),
        made("little", 1.019),
        made("slower", 0.8, 0.019 * peak),
        made("saves", 0.8, 0.02 * peak),
        made("unsure", 0.9, ends=(0.3, 3.0)),
    )
    report = replace(whatif_report, estimates=estimates, combined=None)
    [section] = whatif_sections(report, short=True)
    table, *others = section.blocks
    assert isinstance(table, TextTable)
    assert [row.cells[0].text for row in table.rows] == ["gains", "saves", "unsure"]
    words = [one.text for one in others if isinstance(one, Paragraph)]
    assert words[0] == "less than 2 % faster: little 1.02x, slower 0.80x"
    assert words[1] == "all figures: skyline whatif SCRIPT"
    [whole] = whatif_sections(report)
    assert isinstance(whole.blocks[0], TextTable)
    assert len(whole.blocks[0].rows) == len(estimates)
    [none] = whatif_sections(replace(report, estimates=estimates[1:3]), short=True)
    assert not any(isinstance(one, TextTable) for one in none.blocks)


def test_twice_the_batch_in_less_than_twice_the_time_is_a_gain() -> None:
    # 32 samples in 100 ms, 64 in 160 ms: the iteration takes longer, a sample less.
    found = speedup_range(1.25, 100.0, Interval(60.0, 50.0, 70.0))
    assert (found.low, found.high) == pytest.approx((200 / 170, 200 / 150))
    assert direction(found) == "better"


def test_what_compiling_costs_stands_below_the_table(whatif_report: WhatIfReport) -> None:
    once = replace(
        whatif_report.estimates[1],
        name="compile",
        one_off_s=Interval(38.0, 20.0, 56.0),
        break_even_iterations=7600,
    )
    never = replace(once, value="max-autotune", break_even_iterations=None)
    page = shown(replace(whatif_report, estimates=(once, never), combined=None))
    assert "compile costs once: 38.0 s ±18.0 of processor time, paid back after 7,600 iterations" in page
    assert "compile=max-autotune costs once: 38.0 s ±18.0 of processor time, never paid back" in page
    assert "costs once" not in shown(replace(whatif_report, combined=None))


def best_of(estimate: EstimateReport) -> BestReport:
    return BestReport(("amp=bf16", "batch_size=512"), estimate, (estimate,), 17, 8e9, "convergence")


def test_the_best_combination_has_its_range_and_says_where_it_is_extrapolated(
    whatif_report: WhatIfReport,
) -> None:
    inside = with_change(whatif_report.estimates[0], -42.4, 10.0)
    page = shown(replace(whatif_report, best=best_of(inside)))
    assert "speed 1.30x (1.22–1.40x)" in page
    after = page[page.index("Best combination") :]
    assert "extrapolated" not in after
    page = shown(replace(whatif_report, best=best_of(replace(inside, extrapolated=True))))
    assert "extrapolated: outside the measured range" in page[page.index("Best combination") :]


def test_a_large_factor_from_a_baseline_within_noise_says_so(whatif_report: WhatIfReport) -> None:
    noisy = Interval(0.2, 0.05, 0.35)
    assert baseline_doubt(71.4, noisy) == "from a baseline within noise, 0.20 ms ±0.15"
    assert baseline_doubt(1.3, noisy) == ""
    assert baseline_doubt(71.4, Interval(0.2, 0.19, 0.21)) == ""
    huge = replace(whatif_report.estimates[0], speedup=71.4, speedup_range=Interval(71.4, 20.0, 140.0))
    report = replace(whatif_report, estimates=(huge,), combined=None)
    assert "noise" not in shown(report)
    page = shown(replace(report, baseline=replace(report.baseline, iteration_ms=noisy)))
    assert "71x" in page
    assert "the speed is from a baseline within noise, 0.20 ms ±0.15" in page


def test_the_speed_has_a_mark_where_its_range_holds_no_change():
    assert speedup_cell(1.3, Interval(1.3, 1.21, 1.4)) == "1.30x"
    assert speedup_cell(1.1, Interval(1.1, 0.9, 1.4)) == "~1.10x"
    assert speedup_cell(0.9, Interval(0.9, 0.8, 1.0)) == "~0.90x"
    assert speedup_cell(1.0, Interval.exact(1.0)) == "1.00x"
    assert speedup_cell(1.2, None) == "1.20x"


def test_the_range_of_the_speed_is_empty_where_there_is_none():
    assert range_cell(Interval(1.3, 1.21, 1.4)) == "1.21–1.40x"
    assert range_cell(Interval.exact(1.0)) == range_cell(None) == ""
