"""A larger batch grows the kernels of the passes; the host launches as many, as fast as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.trial import Choices, Trial
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice

MAIN = "cpu:main"
HOST = (4_000.0, 3_000.0, 2_000.0)


def at(profile, batch_size, step_ms):
    """The profile with a trial of another batch size that took so long."""
    times = replace(profile.times, steps_ms=(step_ms,) * 5)
    ratio = step_ms / profile.times.steps_ms[0]
    return replace(
        profile, trials=(Trial(Choices(batch_size=batch_size), times, (ratio,) * 5, peak_bytes=10**8),)
    )


@pytest.mark.parametrize(
    ("gpu_us", "then_us"), [(12_000, 40_000), (2_000, 6_000), (6_000, 20_000), (3_000, 1_000)]
)
def test_only_the_gpu_grows(gpu_steps, on_a100, gpu_us, then_us):
    """Update kernels stand; the profile at the other size has the same host."""
    larger = then_us / gpu_us
    passes_us = gpu_us * 2 / 3
    then_us = gpu_us / 3 + passes_us * larger
    step_ms, then_ms = max(9.0, gpu_us / 1e3), max(9.0, then_us / 1e3)
    profile = at(on_a100(gpu_steps(*HOST, gpu_us), step_ms, 3.0, 2.0), round(16 * larger), then_ms)
    start = baseline(profile)
    composed = compose(start, [Choice("batch_size", str(round(16 * larger)))])
    graph = composed.scenario.graph
    host = graph.tasks.lane == graph.tasks.lane_code(MAIN)
    assert float((graph.durations + graph.gaps)[host].sum()) / 3e3 == pytest.approx(9.0, rel=0.03)
    for change in ("amp", "cuda_graphs"):
        both = answer(start, [Choice("batch_size", str(round(16 * larger))), Choice(change)])
        there = on_a100(gpu_steps(*HOST, gpu_us), then_ms, 3.0, 2.0)
        there = replace(there, batch_size=round(16 * larger), trace=grown(there.trace, larger))
        alone = answer(baseline(there), [Choice(change)])
        assert both.iteration_ms.value == pytest.approx(alone.iteration_ms.value, rel=0.05)


def grown(trace, larger):
    """The kernels of the passes so many times as long; where they begin does not matter."""
    return replace(
        trace,
        records=tuple(
            replace(one, duration_us=one.duration_us * larger)
            if one.kind.value == "kernel" and one.phase.value != "optimizer"
            else one
            for one in trace.records
        ),
    )
