"""The line that sums up, at the width there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.protocol import QuestionParams
from skyline.report.schema import EstimateReport
from skyline_tui.summary import NOTHING_ASKED, together

ANSWER = EstimateReport(
    name="",
    value="",
    title="",
    iteration_ms=Interval(261.25, 240.0, 282.5),
    change_ms=Interval(139.0, 118.0, 160.0),
    throughput=Interval(1245.0, 1200.0, 1290.0),
    peak_bytes=Interval.exact(63.1e6),
    speedup=0.98,
    applicable=True,
    reason=None,
    semantics="exact",
    provenance="modelled",
    assumptions=(),
    rewrite="none",
    rewrite_reason=None,
    extrapolated=True,
    speedup_range=Interval(0.98, 0.95, 1.02),
)


@pytest.mark.parametrize("width", range(56, 100))
def test_it_keeps_to_one_line_and_to_what_stands_nowhere_else(width: int) -> None:
    said = together(ANSWER, QuestionParams("", 109, ()), width).plain
    assert len(said) <= width
    assert said.startswith("batch 109: 261")
    assert "0.98x speed" in said
    assert said.endswith("extrapolated")


def test_with_room_it_says_everything() -> None:
    said = together(ANSWER, QuestionParams("", 64, ("amp=bf16",)), 99).plain
    assert said.startswith("together (2): ")
    assert "1245 samples/s ±45" in said
    assert "63.1 MB" in said
    assert "0.98x (0.95–1.02x) speed" in together(ANSWER, QuestionParams("", 64, ()), 140).plain


@pytest.mark.parametrize(
    ("low", "value", "high", "colour"),
    [
        (0.95, 0.98, 1.02, ""),
        (0.95, 1.2, 1.4, ""),
        (1.01, 1.2, 1.4, "$text-success"),
        (0.9, 0.95, 0.99, "$text-error"),
    ],
)
def test_the_speed_has_a_colour_only_beyond_its_range(
    low: float, value: float, high: float, colour: str
) -> None:
    answer = replace(ANSWER, speedup=value, speedup_range=Interval(value, low, high))
    said = together(answer, QuestionParams("", 64, ()), 140)
    coloured = {str(span.style) for span in said.spans if "speed" in said.plain[span.start : span.end]}
    assert coloured & {"$text-success", "$text-error"} == ({colour} if colour else set())


def test_without_a_question_it_says_what_to_do() -> None:
    assert together(None, QuestionParams("", None, ())).plain == NOTHING_ASKED
