"""The host's own time: from bare parts, from iterations that begin with an idle GPU, and from their lead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes, Trace
from skyline.trace.store import load
from skyline.whatif.baseline import baseline
from skyline.whatif.subject import Subject

KEPT = Path(__file__).parents[3] / "benchmarks" / "gpu_h200"
STEP_MS, GPU_US = 15.0, 15_000.0
RECORDED = (4_000.0, 3_000.0, 2_000.0, GPU_US)
"""The host records 9 ms an iteration, of which each half is the recorder's, and the GPU needs 15."""


def host_ms(subject: Subject) -> float:
    graph = subject.graph
    host = graph.tasks.lane == graph.tasks.lane_code(subject.lane)
    return float((graph.durations + graph.gaps)[host].sum()) / 1e3 / subject.steps


@pytest.fixture
def held(
    on_a100: Callable[[Trace, float, float, float], Profile], gpu_steps: Callable[..., Trace]
) -> Profile:
    """A profile whose backward pass waits for a full queue in each bare iteration: its times say nothing."""
    made = on_a100(gpu_steps(*RECORDED), STEP_MS, 12.0, 1.0)
    return replace(made, times=replace(made.times, backward_ms=(12.0,) * 5))


def from_idle(*host: float) -> BareTimes:
    count = len(host)
    return BareTimes((16.0,) * count, (0.0,) * count, (1.5,) * count, (1.0,) * count, (), host)


def test_iterations_that_begin_idle_show_the_host(held: Profile) -> None:
    as_recorded = baseline(held)
    shown = baseline(replace(held, from_idle=from_idle(4.4, 4.5, 6.0)))
    assert host_ms(as_recorded) > 6
    assert host_ms(shown) == pytest.approx(4.5, rel=0.02)
    assert shown.host.spread.high == pytest.approx(6.0 / 4.5, rel=0.02)
    assert shown.host.spread.low == pytest.approx(4.4 / 4.5, rel=0.02)
    assert shown.simulated_ms == pytest.approx(STEP_MS, rel=0.01)


def test_the_recorder_never_made_the_host_quicker(held: Profile) -> None:
    assert host_ms(baseline(replace(held, from_idle=from_idle(30.0, 30.0, 30.0)))) <= 9.1


def test_the_operators_have_the_same_host(held: Profile) -> None:
    shown = baseline(replace(held, from_idle=from_idle(4.5, 4.5, 4.5)))
    graph = shown.operators
    host = graph.tasks.lane == graph.tasks.lane_code(shown.lane)
    assert float((graph.durations + graph.gaps)[host].sum()) / 3e3 == pytest.approx(host_ms(shown), rel=0.01)


@pytest.mark.parametrize(("name", "least_ms", "most_ms"), [("gpt2", 15.0, 30.0), ("resnet50", 20.0, 25.0)])
def test_an_earlier_profile_tells_it_by_the_lead(name: str, least_ms: float, most_ms: float) -> None:
    """An iteration that begins idle is longer by what the host does until the GPU is busy without a pause.

    As recorded the hosts of these two take 50 and 44 ms; the measured steps of other trainings there leave it 20 to
    30 µs a kernel.
    """
    assert least_ms <= host_ms(baseline(load(KEPT / f"{name}.profile.json.gz"))) <= most_ms


def test_parts_that_do_not_wait_need_no_other_iterations(
    on_a100: Callable[[Trace, float, float, float], Profile], gpu_steps: Callable[..., Trace]
) -> None:
    made = on_a100(gpu_steps(*RECORDED), STEP_MS, 1.5, 1.0)
    assert host_ms(baseline(made)) == pytest.approx(4.5, rel=0.02)
