"""Bare times of a step that waits for its GPU do not tell how fast the host is; the host's own bare times do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.bare_times import BareTimes
from skyline.trace.facts import Device, Environment
from skyline.trace.phase import Phase
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine, IterationMark, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.question import Choice

MAIN, STREAM = "cpu:main", "gpu0:stream7"


def trace(forward_us: float, backward_us: float, step_us: float, gpu_us: float) -> Trace:
    """Three iterations, recorded with a wait at the end of each: a product on the GPU for each pass."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    now, number = 0.0, 0
    for index in range(3):
        begin = free = now
        for phase, host_us in (
            (Phase.FORWARD, forward_us), (Phase.BACKWARD, backward_us), (Phase.OPTIMIZER, step_us)
        ):  # fmt: skip
            number += 1
            launch = Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, index, now, 5.0, line=0)
            records.append(replace(launch, correlation=number))
            start = max(free, now + 5.0)
            free = start + gpu_us / 3
            kernel = Record("ampere_sgemm_128x64", RecordKind.KERNEL, phase, STREAM, index, start, gpu_us / 3)
            records.append(replace(kernel, correlation=number))
            records.append(
                Record("aten::mm", RecordKind.OPERATOR, phase, MAIN, index, now + 5.0, host_us - 5.0)
            )
            now += host_us
        wait = max(0.0, free - now) + 8
        records.append(
            Record("cudaDeviceSynchronize", RecordKind.RUNTIME, Phase.OPTIMIZER, MAIN, index, now, wait)
        )
        now += wait
        marks.append(IterationMark(index, begin, now))
    return Trace(tuple(marks), (CodeLine("/project/train.py", 3),), (), tuple(records))


def on_a100(
    profile: Profile, recorded: Trace, step_ms: float, backward_ms: float, optimizer_ms: float
) -> Profile:
    device = Device("NVIDIA A100-SXM4-80GB", "cuda")
    environment: Environment = replace(profile.environment, device=device)
    # Some iterations wait for a full queue in their backward pass, and the step waits for its GPU.
    waits = (0.0, 0.0, 1.0, 4.0, 9.0)
    bare = BareTimes(
        (step_ms,) * 5, (0.0,) * 5, tuple(backward_ms + one for one in waits), (optimizer_ms,) * 5
    )  # fmt: skip
    return replace(profile, trace=recorded, times=bare, environment=environment, trials=(), loaders=())


@pytest.mark.parametrize("gpu_us", [3_000.0, 9_000.0, 12_000.0, 18_000.0])
def test_a_small_change_of_the_bare_time_changes_answers_by_little(profile: Profile, gpu_us: float) -> None:
    """Also where the GPU takes longer than it was recorded to, and where host and GPU are about as busy."""
    recorded = trace(4_000, 3_000, 2_000, gpu_us)
    for step_ms in (0.8 * gpu_us / 1e3, gpu_us / 1e3, 1.1 * gpu_us / 1e3, 9.0, 13.0):
        answers = [
            answer(
                baseline(on_a100(profile, recorded, step_ms * factor, 2.4, 1.6)), [Choice("amp")]
            ).iteration_ms.value
            for factor in (0.98, 1.0, 1.02)
        ]
        assert max(answers) <= 1.05 * answers[1]
        assert min(answers) >= 0.95 * answers[1]


def test_the_host_of_a_step_that_waits_is_as_fast_as_it_was_bare(profile: Profile) -> None:
    """Recording doubled the host; the bare step waits for its GPU and shows nothing of that."""
    recorded = trace(4_000, 3_000, 2_000, 15_000)
    start = baseline(on_a100(profile, recorded, 15.0, 1.5, 1.0))
    host = start.graph.tasks.lane == start.graph.tasks.lane_code(MAIN)
    own_ms = float((start.graph.durations + start.graph.gaps)[host].sum()) / 3e3
    assert own_ms == pytest.approx(4.5, rel=0.02)
    assert start.simulated_ms == pytest.approx(15.0, rel=0.01)


def test_the_host_of_a_step_that_it_bounds_takes_the_bare_time(profile: Profile) -> None:
    start = baseline(on_a100(profile, trace(8_000, 6_000, 4_000, 2_000), 9.0, 3.0, 2.0))
    assert start.simulated_ms == pytest.approx(9.0, rel=0.02)
    kernels = start.graph.tasks.lane == start.graph.tasks.lane_code(STREAM)
    assert float(start.graph.durations[kernels].sum()) / 3e3 == pytest.approx(2.0, rel=0.02)


def test_scatter_of_the_hosts_bare_times_is_in_the_range(profile: Profile) -> None:
    """Without the GPU's time the host bounds the step, and how fast it is was seen only roughly."""
    recorded = trace(4_000, 3_000, 2_000, 15_000)
    found = answer(baseline(on_a100(profile, recorded, 15.0, 1.5, 1.0)), [Choice("amp")])
    assert found.iteration_ms.value < 9
    sure = on_a100(profile, recorded, 15.0, 1.5, 1.0)
    sure = replace(sure, times=replace(sure.times, backward_ms=(1.5,) * 5))
    surer = answer(baseline(sure), [Choice("amp")])
    slow = on_a100(profile, recorded, 15.0, 1.5, 1.0)
    slow = replace(slow, times=replace(slow.times, backward_ms=(1.5, 1.5, 12.0, 13.0, 14.0)))
    held = answer(baseline(slow), [Choice("amp")])
    assert held.iteration_ms.high > surer.iteration_ms.high + 2
