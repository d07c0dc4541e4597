"""Percentiles of the calls of a model, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.report.latency import latency_of, latency_remark
from skyline.report.schema import LatencyReport, ProfileReport
from skyline.trace.facts import MODEL_CALL, IterationFact
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes

CALLS = IterationFact("one call of Net, without training", MODEL_CALL, 0.0, 0.0, 1.0)


def serving(profile: Profile, steps_ms: tuple[float, ...]) -> Profile:
    zeros = (0.0,) * len(steps_ms)
    return replace(profile, iteration=CALLS, times=BareTimes(steps_ms, zeros, zeros, zeros))


def test_a_training_has_none(profile: Profile) -> None:
    assert latency_of(profile) is None


def test_percentiles_are_calls_that_were_timed(profile: Profile) -> None:
    steps = tuple(float(1 + (37 * number) % 200) for number in range(200))
    assert latency_of(serving(profile, steps)) == LatencyReport(200, 100.0, 180.0, 198.0)


def test_few_calls_have_no_99th(profile: Profile) -> None:
    assert latency_of(serving(profile, (4.0, 1.0, 2.0, 3.0))) == LatencyReport(4, 2.0, 4.0, None)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1, "One sample at a time (single stream): rated by p90, 5.00 ms."),
        (32, "32 samples at a time (offline): rated by "),
        (None, "p99 8.00 ms."),
    ],
)
def test_the_scenario_is_that_of_the_batch_size(
    profile_report: ProfileReport, size: int | None, words: str
) -> None:
    report = replace(
        profile_report,
        batch_size=replace(profile_report.batch_size, value=size),
        latency=LatencyReport(240, 4.0, 5.0, 8.0),
    )
    said = latency_remark(report)
    assert said.startswith("Latency of 240 calls: p50 4.00 ms · p90 5.00 ms · p99 8.00 ms.")
    assert words in said


def test_a_training_says_nothing(profile_report: ProfileReport) -> None:
    assert latency_remark(profile_report) == ""
