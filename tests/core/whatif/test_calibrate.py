from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.build import build
from skyline.graph.task import Part
from skyline.trace.record import IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.calibration import calibrate


def trace_of(*records: Record) -> Trace:
    return Trace((IterationMark(0, 0.0, records[-1].end_us),), (), (), records)


def two_tasks(noted_us: float) -> Trace:
    """A sleep of 10 ms, and calls that take 10 ms under recording, a part of which is the recording's."""
    sleep = Record("sleep", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 0.0, 10_000.0, line=0)
    calls = Record("calls", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 10_000.0, 10_000.0, line=1)
    return trace_of(sleep, replace(calls, recording_us=noted_us))


def times(trace: Trace, target_ms: float) -> list[float]:
    graph = calibrate(build(trace), "main", {Part.REST: target_ms})
    return [(duration + gap) / 1e3 for duration, gap in zip(graph.durations, graph.gaps, strict=True)]


def test_what_recording_took_is_taken_from_what_it_noted():
    assert times(two_tasks(noted_us=4000), 16.0) == pytest.approx([10.0, 6.0])


def test_more_than_recording_can_have_taken_is_shared():
    # At most one and a half times the estimate of 0.4 ms: 0.6 ms go from the calls, the rest in proportion.
    assert times(two_tasks(noted_us=400), 9.7) == pytest.approx([5.0, 4.7])


def test_a_task_keeps_some_of_its_time_whatever_was_noted_on_it():
    sleep, calls = times(two_tasks(noted_us=9000), 11.0)
    assert sleep + calls == pytest.approx(11.0)
    assert calls == pytest.approx(11.0 * 3 / 13)


def test_without_notes_all_is_scaled_alike():
    assert times(two_tasks(noted_us=0), 10.0) == pytest.approx([5.0, 5.0])


def test_a_faster_recording_is_scaled_up_alike():
    assert times(two_tasks(noted_us=4000), 40.0) == pytest.approx([20.0, 20.0])


@pytest.mark.parametrize(
    ("target_ms", "expected"),
    [(26.0, [10.0, 16.0]), (60.0, [20.0, 40.0])],
    ids=["as far as it may", "the rest is shared"],
)
def test_what_is_lacking_goes_to_operators_first(target_ms: float, expected: list[float]):
    hook = Record("hook", RecordKind.PYTHON, Phase.OPTIMIZER, "main", 0, 0.0, 10_000.0, line=0)
    step = Record("step", RecordKind.OPERATOR, Phase.OPTIMIZER, "main", 0, 10_000.0, 10_000.0, line=1)
    assert times(trace_of(hook, step), target_ms) == pytest.approx(expected)
