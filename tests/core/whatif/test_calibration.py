"""Bare times of a step that waits for its GPU do not tell how fast the host is; the host's own bare times do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.whatif.baseline import baseline
from skyline.whatif.question import Choice

MAIN, STREAM = "cpu:main", "gpu0:stream7"


@pytest.mark.parametrize("gpu_us", [3_000.0, 9_000.0, 12_000.0, 18_000.0])
def test_a_small_change_of_the_bare_time_changes_answers_by_little(gpu_steps, on_a100, gpu_us):
    """Also where the GPU takes longer than it was recorded to, and where host and GPU are about as busy."""
    recorded = gpu_steps(4_000, 3_000, 2_000, gpu_us)
    for step_ms in (0.8 * gpu_us / 1e3, gpu_us / 1e3, 1.1 * gpu_us / 1e3, 9.0, 13.0):
        answers = [
            answer(
                baseline(on_a100(recorded, step_ms * factor, 2.4, 1.6)), [Choice("amp")]
            ).iteration_ms.value
            for factor in (0.98, 1.0, 1.02)
        ]
        assert max(answers) <= 1.05 * answers[1]
        assert min(answers) >= 0.95 * answers[1]


def test_the_host_of_a_step_that_waits_is_as_fast_as_it_was_bare(gpu_steps, on_a100):
    """Recording doubled the host; the bare step waits for its GPU and shows nothing of that."""
    recorded = gpu_steps(4_000, 3_000, 2_000, 15_000)
    start = baseline(on_a100(recorded, 15.0, 1.5, 1.0))
    host = start.graph.tasks.lane == start.graph.tasks.lane_code(MAIN)
    own_ms = float((start.graph.durations + start.graph.gaps)[host].sum()) / 3e3
    assert own_ms == pytest.approx(4.5, rel=0.02)
    assert start.simulated_ms == pytest.approx(15.0, rel=0.01)


def test_the_host_of_a_step_that_it_bounds_takes_the_bare_time(gpu_steps, on_a100):
    start = baseline(on_a100(gpu_steps(8_000, 6_000, 4_000, 2_000), 9.0, 3.0, 2.0))
    assert start.simulated_ms == pytest.approx(9.0, rel=0.02)
    kernels = start.graph.tasks.lane == start.graph.tasks.lane_code(STREAM)
    assert float(start.graph.durations[kernels].sum()) / 3e3 == pytest.approx(2.0, rel=0.02)


def test_scatter_of_the_hosts_bare_times_is_in_the_range(gpu_steps, on_a100):
    """Without the GPU's time the host bounds the step, and how fast it is was seen only roughly."""
    recorded = gpu_steps(4_000, 3_000, 2_000, 15_000)
    found = answer(baseline(on_a100(recorded, 15.0, 1.5, 1.0)), [Choice("amp")])
    assert found.iteration_ms.value < 9
    sure = on_a100(recorded, 15.0, 1.5, 1.0)
    sure = replace(sure, times=replace(sure.times, backward_ms=(1.5,) * 5))
    surer = answer(baseline(sure), [Choice("amp")])
    slow = on_a100(recorded, 15.0, 1.5, 1.0)
    slow = replace(slow, times=replace(slow.times, backward_ms=(1.5, 1.5, 12.0, 13.0, 14.0)))
    held = answer(baseline(slow), [Choice("amp")])
    assert held.iteration_ms.high > surer.iteration_ms.high + 2
