"""The page of a sweep with points made by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from skyline.interval import Interval
from skyline.report.html.sweep import render_sweep
from skyline.report.pages.sweep import SHOWN, sweep_page
from skyline.report.sweep import SweepReport, sweep_report
from skyline.report.terminal import print_document
from skyline.source.number_place import AskedName, chosen
from skyline.source.number_search import number_places
from skyline.source.text import SourceText
from skyline.sweep.point import FailedPoint, Provenance, SweepPoint
from skyline.sweep.run import Swept
from skyline.sweep.setting import SweptSetting
from skyline.sweep.values import Varied
from skyline.sweep.work import IterationWork
from skyline.trace.profile import Prediction, Profile

SCRIPT = SourceText.of("/project/train.py", "import torch\nwidth = 512\n")


def point(value: int, time: float, *, spread: float = 0.0, fits: str = "", **figures: object) -> SweepPoint:
    known: dict[str, object] = {
        "flops": value**2,
        "ideal_ms": time * value / 2048,
        "operators": 100,
        "parameters": value,
        "tile_share": 0.95 if value % 128 == 0 else 0.7,
        "sizes": frozenset({value}),
        **figures,
    }
    return SweepPoint(
        (value,),
        Interval(time, time * (1 - spread), time * (1 + spread)),
        32,
        value * 10**6,
        fits,
        IterationWork(**known),  # type: ignore[arg-type]
    )


def report(points: list[SweepPoint], **more: object) -> SweepReport:
    place = chosen(
        AskedName.parse("width"), number_places(SCRIPT, (), lambda path: None, "width"), SCRIPT.path
    )
    varied = Varied(AskedName("width"), tuple(one.values[0] for one in points))
    figures: dict[str, object] = {"failed": (), "left": 0, "first": None, "spent_s": 9.0, **more}
    swept = Swept((SweptSetting(varied, place, SCRIPT),), tuple(points), **figures)  # type: ignore[arg-type]
    return sweep_report("/project/train.py", ("--lr", "1"), swept, 5)


def printed(made: SweepReport, width: int = 100) -> str:
    out = io.StringIO()
    print_document(sweep_page(made, Path("/project")), Console(file=out, width=width))
    return out.getvalue()


STAIR = [point(value, 10.0 if value <= 512 else 14.0) for value in range(128, 1025, 64)]


def test_a_step_is_said_with_its_cause_and_marked_in_its_row() -> None:
    made = report(STAIR)
    (step,) = made.series[0].steps
    assert (step.before, step.after) == (512, 576)
    assert made.series[0].sentences[0] == (
        "From width 512 to 576 the time rises by 40 %: 576 is not a multiple of 128, and results fill 70 % of their "
        "tiles instead of 95 %."
    )
    text = printed(made)
    (row,) = [line for line in text.splitlines() if line.strip().startswith("576 ")]
    assert "step +40.0 %" in row
    (now,) = [line for line in text.splitlines() if "◀ now" in line]
    assert now.strip().startswith("512 ")
    assert "train.py --lr 1: width from 128 to 1024" in text
    assert "width: train.py:2, 512 now" in text
    assert "Utilisation is highest at width 1024, with 50 % of the peak FLOP rate" in " ".join(text.split())


def test_steps_after_each_multiple_of_a_number_are_said_together() -> None:
    stairs = [point(value, 10.0 * 1.2 ** ((value - 1) // 128)) for value in range(256, 769, 32)]
    assert report(stairs).series[0].sentences[0] == "After each multiple of 128 the time rises, by 20 %."
    assert "After each multiple" not in report(STAIR).series[0].sentences[0]


def test_narrow_terminals_lose_columns_and_no_numbers() -> None:
    text = printed(report(STAIR), width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert "14.0" in text


def test_failed_points_with_one_reason_stand_together() -> None:
    failed = (FailedPoint((100,), "no"), FailedPoint((101,), "no"), FailedPoint((9999,), "out of memory"))
    text = printed(report(STAIR, failed=failed))
    assert "width=100, width=101: no" in text
    assert "width=9999: out of memory" in text


def test_notes_say_why_points_are_missing() -> None:
    assert "interrupted: 3 points left out" in report(STAIR, left=3, interrupted=True).notes[0]
    assert "Raise --budget" in report(STAIR, left=3).notes[0]
    assert "ended early" in report(STAIR, left=3, ended="the first run failed").notes[0]
    assert "Other programs used 1.5 cores" in report(STAIR, others_cores=1.5).notes[0]


def test_points_beyond_the_memory_are_marked() -> None:
    made = report([*STAIR[:-1], point(1024, 14.0, fits="too large")])
    (row,) = [line for line in printed(made).splitlines() if line.strip().startswith("1024 ")]
    assert "too large" in row


def test_a_setting_that_reaches_nothing_is_remarked_on() -> None:
    same = [
        SweepPoint((value,), Interval.exact(9.0), 32, 5, "", IterationWork(7, None, 3, 1))
        for value in (1, 2, 3, 4)
    ]
    first, last = report(same).series[0].sentences
    assert first == "The time hardly depends on width: it differs by 0 % over all values."
    assert last == "Neither memory nor arithmetic changes with width: it may have no effect in this run."


def test_measured_times_within_each_others_ranges_are_said_to_be_alike() -> None:
    noisy = [point(value, 10.0 + value / 100, spread=0.9) for value in range(64, 641, 64)]
    made = report(noisy).series[0]
    assert made.sentences[0].startswith("The times do not differ beyond their ranges.")
    assert made.knee is None


def test_of_many_points_the_marked_rows_are_shown() -> None:
    many = [point(value, 10.0 if value <= 512 else 14.0) for value in range(128, 1025, 4)]
    text = printed(report(many))
    rows = [line for line in text.splitlines() if "█" in line]
    assert len(rows) <= SHOWN + 4
    assert f"{len(many) - len(rows)} rows between these are left out" in text
    assert any(line.strip().startswith("516 ") for line in rows)


def test_the_html_page_draws_time_memory_and_utilisation() -> None:
    made = report(STAIR)
    page = render_sweep(sweep_page(made), made)
    assert page.count("<svg viewBox") == 3
    assert "width 576: 14.0 ms, measured" in page
    assert ">width</text>" in page


def with_runs(provenance: Provenance) -> list[SweepPoint]:
    """The first, the last and a middle point ran; the others have ``provenance``."""
    ran = {128, 576, 1024}
    return [one if one.values[0] in ran else replace(one, provenance=provenance) for one in STAIR]


def test_values_that_ran_are_told_apart_from_interpolated_ones() -> None:
    made = report(with_runs(Provenance.INTERPOLATED))
    assert [one.provenance for one in made.series[0].points[:2]] == ["measured", "interpolated"]
    text = printed(made)
    rows = {line.split()[0]: line for line in text.splitlines() if "█" in line or "░" in line}
    assert "ran" in rows["576"].split()
    assert "ran" not in rows["640"].split()
    assert "░" in rows["640"]
    assert "█" in rows["576"]
    assert f"3 of {len(STAIR)} values measured, the others interpolated" in text
    assert "Raise --budget to measure them." in made.notes[0]
    assert made.basis[0].startswith("3 points, measured alternately")
    assert made.basis[1].startswith("12 points, interpolated between measured ones")
    page = render_sweep(sweep_page(made), made)
    assert "width 640: 14.0 ms, interpolated" in page
    assert "width 576: 14.0 ms, measured" in page


def test_a_prediction_says_which_values_it_is_fitted_to_or_why_none_ran(profile: Profile) -> None:
    said = Prediction("cpu", "processor", "stated figures", Interval.exact(1.0), 1.0)
    first = replace(profile, mode="predicted", prediction=said)
    fitted = report(with_runs(Provenance.INTERPOLATED), first=first)
    assert fitted.mode == "predicted"
    assert fitted.basis[1].startswith("The script also ran here with 3 values")
    assert not fitted.notes or "Raise --budget" not in fitted.notes[0]
    alone = report(
        [replace(one, provenance=Provenance.PREDICTED) for one in STAIR], first=first, runs_failed="no data"
    )
    assert "predicted for " in printed(alone)
    assert not any("also ran here" in one for one in alone.basis)
    assert "No value could run here, so that no time is measured: no data" in alone.notes
