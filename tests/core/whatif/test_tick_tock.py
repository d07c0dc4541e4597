"""Two waves on one GPU: the peak of a curve of four steps, and the two ends of sharing the GPU, solved by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.analysis.estimate import answer, ranked
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.trace.record import Allocation, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.tick_tock import WHATIF, WaveMemory
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice

HOST = (4_000.0, 3_000.0, 2_000.0)
MB = 1_000_000
# Forward: 100 MB at 10 % and again at 22 % of the iteration; backward: they are freed at 58 % and 71 %.
STEPS = ((0.10, 100, 1), (0.22, 100, 2), (0.58, -100, 2), (0.71, -100, 1))


@pytest.fixture
def shared(gpu_steps, on_a100):
    """A step of which the GPU computes for so many µs, with the curve of memory above."""

    def made(gpu_us, step_ms=9.0):
        recorded = gpu_steps(*HOST, gpu_us)
        mark = recorded.iterations[-1]
        length = mark.end_us - mark.start_us
        events = tuple(
            Allocation(
                mark.start_us + part * length, size * MB, at, Phase.FORWARD if size > 0 else Phase.BACKWARD, 0
            )
            for part, size, at in STEPS
        )
        made = on_a100(replace(recorded, allocations=events), step_ms, 3.0, 2.0)
        # 10 MB of parameters, as much of gradients, 20 MB of Adam's state and 1 MB of other tensors stay.
        return baseline(replace(made, peak_bytes=241 * MB))

    return made


@pytest.mark.parametrize(
    ("offset", "peak"),
    [
        # The second wave is over when the first one is full, and begins when that is empty.
        (0.5, 200 + 2 * 7),
        # It keeps 100 from 50 on, while the first has 200 until 58.
        (0.4, 300 + 2 * 7),
        # It has 200 from 52 on.
        (0.3, 400 + 2 * 7),
        (0.7, 400 + 2 * 7),
    ],
)
def test_the_peak_of_two_waves_by_hand(offset, peak):
    wave = WaveMemory(np.array([10.0, 22.0, 58.0, 71.0]), np.array([107.0, 207.0, 107.0, 7.0]), 100.0)
    assert wave.peak(offset) == peak
    assert wave.peak(0.0) == 2 * 207
    found = wave.around(offset)
    assert found.low <= found.value == peak <= found.high <= 2 * 207


def test_the_second_wave_takes_little_more_than_its_model(shared):
    subject = shared(300.0)
    assert subject.peak.activations == 200 * MB
    found = compose(subject, [Choice("tick_tock", "0.5")]).scenario.memory
    assert found.parameters == 2 * subject.memory.parameters
    assert found.optimizer == 2 * subject.memory.optimizer
    assert found.peak_bytes.value == pytest.approx((200 + 2 * 41) * MB)
    assert found.peak_bytes.low <= found.peak_bytes.value < found.peak_bytes.high
    in_step = compose(subject, [Choice("tick_tock", "0.01")]).scenario.memory
    assert in_step.peak_bytes.value == pytest.approx(2 * 241 * MB)


def test_an_idle_gpu_takes_both_waves(shared):
    """The host launches for 9 ms, and the GPU works for 0.3 ms, and for both waves for less than 1 ms."""
    subject = shared(300.0)
    found = answer(subject, [Choice("tick_tock", "0.5")])
    assert found.iteration_ms.value == pytest.approx(9.0, rel=0.02)
    assert found.speedup == pytest.approx(2.0, rel=0.02)
    assert (found.semantics, found.provenance) == ("convergence", "assumed")


def test_a_full_gpu_brings_nothing(shared):
    """Its kernels take 12 ms, and those of both waves 24; averaging 10 MB of weights costs 2 * 3 * 10 MB / 2 TB/s."""
    subject = shared(12_000.0, 12.0)
    found = answer(subject, [Choice("tick_tock", "0.5")])
    assert found.iteration_ms.value == pytest.approx(24.0, rel=0.02)
    assert found.speedup == pytest.approx(1.0, rel=0.02)
    graph = compose(subject, [Choice("tick_tock", "0.5")]).scenario.graph
    averaging = select(graph, name="average weights")
    assert len(averaging) == len(graph.iterations)
    assert 25 < graph.durations[averaging][0] < 50


def test_it_is_answered_only_where_the_distance_is_named(shared):
    subject = shared(300.0)
    listed = {one.name: one for one in ranked(subject)}
    assert not listed["tick_tock"].applicable
    assert "needs the distance" in listed["tick_tock"].reason
    for value in ("0", "1", "x", "-0.5", "nan"):
        with pytest.raises(UsageError, match="not possible"):
            answer(subject, [Choice("tick_tock", value)])
    both = answer(subject, [Choice("tick_tock", "0.5"), Choice("fuse_jobs", "2")])
    assert "together" in both.reason


def test_reasons_where_it_cannot_be(profile, shared):
    assert "nothing ran on a GPU" in detected_in(baseline(profile), WHATIF).reason
    known = shared(300.0).script
    bare = replace(known, trace=replace(known.trace, allocations=()))
    assert "memory over an iteration" in detected_in(baseline(bare), WHATIF).reason
