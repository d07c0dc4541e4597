"""The list of what-ifs: those that apply first, their other values, the reasons of the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.content import Content

from skyline.interval import Interval
from skyline.report.schema import BaselineReport, EstimateReport
from skyline.whatif.question import speedup_range
from skyline_tui.screens.explain import _lines
from skyline_tui.widgets.whatifs import HEAD, REST, WhatIfs, whatif_rows

if TYPE_CHECKING:
    from conftest import OpenedApp

SIZE = (120, 40)
NOW = BaselineReport(Interval(100.0, 98.0, 102.0), None, Interval.exact(1e9), 0.004)
WHY = "the script does not use DistributedDataParallel; to profile several ranks: --ranks 2"


def estimate(name: str, change: float, *, reason: str | None = None, values: int = 0) -> EstimateReport:
    time = 100.0 + change
    return EstimateReport(
        name=name.partition("=")[0],
        value=name.partition("=")[2],
        title=name,
        iteration_ms=Interval(time, time - 2, time + 2),
        change_ms=Interval(change, change - 2, change + 2),
        throughput=None,
        peak_bytes=Interval.exact(0.8e9),
        speedup=100.0 / time,
        applicable=reason is None,
        reason=reason,
        semantics="convergence" if "accumulation" in name else "exact",
        provenance="modelled",
        assumptions=(),
        rewrite="none",
        rewrite_reason=None,
        values=tuple(map(str, range(values))),
        speedup_range=speedup_range(100.0 / time, 100.0, Interval(change, change - 2, change + 2)),
    )


CATALOGUE = {
    item.name: item
    for item in (
        estimate("amp=bf16", -40.0),
        estimate("grad_accumulation=2", 31.0, values=4),
        *(estimate(f"what_if_number_{number}", -1.0, values=2) for number in range(10)),
        *(estimate(f"not_here_number_{number}", 0.0, reason=WHY) for number in range(13)),
    )
}


@pytest.mark.parametrize("width", [50, 56, 78, 120])
def test_rows_fit_and_reasons_are_told_in_full(width: int) -> None:
    rows = dict(whatif_rows(CATALOGUE, ("amp",), NOW, width))
    assert list(rows) == [HEAD, *list(CATALOGUE)[:12], REST, *list(CATALOGUE)[12:]]
    for row in rows.values():
        assert all(len(line) <= width for line in row.plain.splitlines()), row.plain
    assert "do not apply here (13)" in rows[REST].plain
    assert rows["amp"].plain.startswith("[x] amp")
    reason = rows["not_here_number_3"].plain
    assert reason.startswith("[!] ")
    assert " ".join(reason.split())[4:].partition(" ")[2] == WHY
    assert "‹›" in rows["grad_accumulation"].plain
    assert "‹›" not in rows["amp"].plain


def test_a_word_becomes_shorter_before_a_name_does() -> None:
    rows = dict(whatif_rows({"grad_accumulation=2": CATALOGUE["grad_accumulation"]}, (), NOW, 56))
    assert "grad_accumulation=2 ‹›" in rows["grad_accumulation=2"].plain
    assert "conv." in dict(whatif_rows(CATALOGUE, (), NOW, 52))["grad_accumulation"].plain


def colours(row: Content) -> dict[str, str]:
    """Each stretch of a row that has a colour of its own, with it."""
    return {row.plain[span.start : span.end].strip(): str(span.style) for span in row.spans}


@pytest.mark.parametrize(
    ("change", "colour"),
    [
        (-40.0, "$text-success"),
        (-2.1, "$text-success"),
        (-1.9, ""),  # its range holds no change at all
        (0.0, ""),
        (1.9, ""),
        (2.1, "$text-error"),
        (40.0, "$text-error"),
    ],
)
def test_green_and_red_are_for_what_the_range_leaves_no_doubt_about(change: float, colour: str) -> None:
    rows = dict(whatif_rows({"amp": estimate("amp", change)}, (), NOW, 80))
    (figure,) = (text for text in rows["amp"].plain.split("  ") if "±" in text)
    assert colours(rows["amp"]).get(figure.strip(), "") == colour
    lines = _lines(estimate("amp", change), NOW, None)
    (speed,) = (line for line in lines if line.plain.startswith("speedup"))
    ratio = speed.plain.removeprefix("speedup").strip()
    assert re.fullmatch(r"\d\.\d\dx \(\d\.\d\d–\d\.\d\dx\)", ratio), "with its range"
    assert colours(speed).get(ratio, "") == colour


def test_a_range_that_tells_nothing_is_shown_as_not_known() -> None:
    one = replace(estimate("compile", 40.0), speedup=0.72, speedup_range=Interval(0.72, 0.28, 3.56))
    row = dict(whatif_rows({"compile": one}, (), NOW, 80))["compile"]
    assert "not known" in row.plain
    assert "ms" not in row.plain


@pytest.mark.parametrize("width", [50, 120])
def test_what_a_change_costs_once_stands_in_its_row(width: int) -> None:
    costly = replace(
        estimate("compile", -5.0), one_off_s=Interval(38.0, 20.0, 56.0), break_even_iterations=7600
    )
    never = replace(costly, name="other", break_even_iterations=None)
    rows = dict(whatif_rows({"compile": costly, "other": never, "amp": CATALOGUE["amp"]}, (), NOW, width))
    words = " ".join(rows["compile"].plain.split())
    assert words.endswith("once: 38.0 s ±18.0 of processor time, paid back after 7,600 iterations")
    assert " ".join(rows["other"].plain.split()).endswith(
        "once: 38.0 s ±18.0 of processor time, never paid back"
    )
    assert "once" not in rows["amp"].plain
    assert all(len(line) <= width for row in rows.values() for line in row.plain.splitlines())


def test_a_large_factor_from_a_baseline_within_noise_says_so() -> None:
    huge = replace(estimate("amp", -98.6), speedup=71.4, speedup_range=Interval(71.4, 20.0, 140.0))
    noisy = replace(NOW, iteration_ms=Interval(0.2, 0.05, 0.35))
    words = "\n".join(line.plain for line in _lines(huge, noisy, None))
    assert "71x (20–140x)" in words
    assert "from a baseline within noise, 0.20 ms ±0.15" in words
    assert "noise" not in "\n".join(line.plain for line in _lines(huge, NOW, None))
    assert "noise" not in "\n".join(line.plain for line in _lines(estimate("amp", -40.0), noisy, None))


async def test_keys_go_through_the_values_of_a_row(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "right")
        await pilot.pause()
        assert made.session.questions[-1].whatifs == ("checkpointing=all",)
        assert "[ ] checkpointing=all ‹›" in made.text
        asked = len(made.session.questions)
        await pilot.press("left", "minus")
        await pilot.pause()
        await pilot.press("plus", "plus")
        await pilot.pause()
        assert "[ ] checkpointing=all ‹›" in made.text
        values = [question.whatifs[0] for question in made.session.questions[asked:]]
        assert values == ["checkpointing=fit"], "what is known is not asked again"


async def test_a_checked_row_stays_checked_at_another_value(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "down", "space", "right")
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ("fused_optimizer", "checkpointing=all")
        assert made.session.questions[-1].whatifs == ("fused_optimizer", "checkpointing=all")


async def test_one_value_only_is_said(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("right")
        assert "fused_optimizer has one value only" in made.toasts
        assert made.session.questions == []


async def test_the_explanation_has_values_and_what_it_costs_once(
    opened_app: Callable[..., OpenedApp],
) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        for part in ("[default]  all  fit", "38.0 s", "paid back after 2,300 iterations"):
            assert part in made.text, part


def with_switch(removal: str, reason: str | None = None) -> EstimateReport:
    return replace(
        estimate("compile", 0.0, reason="the code has it already"),
        present="on",
        removal=removal,
        removal_reason=reason,
    )


@pytest.mark.parametrize("width", [50, 120])
def test_what_the_code_has_is_a_switch_that_is_on(width: int) -> None:
    known = {
        "amp": CATALOGUE["amp"],
        "compile": with_switch("available"),
        "not_here_number_3": CATALOGUE["not_here_number_3"],
    }
    rows = dict(whatif_rows(known, (), NOW, width))
    assert list(rows) == [HEAD, "amp", "compile", REST, "not_here_number_3"]
    assert " ".join(rows["compile"].plain.split()) == "[on] compile in the code; Space removes it"
    assert "(1)" in rows[REST].plain, "it is none of those that do not apply"
    known["compile"] = with_switch("refused", "it is a decorator of another file")
    rows = dict(whatif_rows(known, (), NOW, width))
    assert "it is a decorator of another file" in " ".join(rows["compile"].plain.split())
    assert all(len(line) <= width for row in rows.values() for line in row.plain.splitlines())


async def test_space_switches_it_off_in_live_mode_alone(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    listed = made.session.whatifs

    async def with_one():
        report = await listed()
        rest = tuple(one for one in report.estimates if one.name != "compile")
        return replace(report, estimates=(*rest, with_switch("available")))

    made.session.whatifs = with_one
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "[on] compile" in made.text
        await pilot.press("end", "space")
        await pilot.pause()
        assert made.session.removed == ["compile"]
        assert "compile is removed from the code" in made.toasts
        assert made.session.applied == []
        await pilot.press("m", "space")
        await pilot.pause()
        assert made.session.removed == ["compile"], "staged: nothing is written"
        assert "Press m for live mode" in made.toasts
