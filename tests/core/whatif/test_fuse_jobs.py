"""Several runs fused into one: a step on a CPU that is worked out by hand, and the two ends on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.analysis.estimate import answer, ranked
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import ModuleFact, ParallelFact
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.batched_operators import (
    CONVOLUTIONS,
    LAYER_NORMS,
    NORMS,
    OTHER_CALL_US,
    PRODUCT_CALL_US,
    PRODUCTS,
    STEP_CALL_US,
    batched_shape,
    kernel_factors,
)
from skyline.whatif.catalogue.models.fuse_jobs import processes_at_once
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.thread_scaling import PLAIN_PART, gained
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

HOST = (4_000.0, 3_000.0, 2_000.0)
CALLS_US = PRODUCT_CALL_US.value + STEP_CALL_US.value
"""Of a forward pass with one product."""
WHOLE = 0.5 / gained(PLAIN_PART.value, 2)
"""The time of a product on one of two threads over half of that on both."""
FORMATS = ("float32",) * 3
MM = OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float32",) * 2, ((8, 8),), ("float32",), 1024, 768)


def fused(subject, value):
    return answer(subject, [Choice("fuse_jobs", value)])


@pytest.mark.parametrize("pauses", [1, 2])
def test_a_step_on_a_cpu_by_hand(profile, pauses):
    """The batch of 16 takes 10 ms: loader 2, forward pass with its print 3, backward pass 3, update 2; 32 was measured.

    Forward and backward pass take twice as long in that batch. Python between operators does so only where blocks are
    too large for the C library to keep. Of the products, which have weights, 12 µs are the call, and the rest is there
    for both runs: each on a thread of its own. The multiplications of the update take 20 µs, of which half is the call.
    """
    if pauses == 1:
        profile = replace(profile, trace=replace(profile.trace, allocations=()))
    found = fused(baseline(profile), "2")
    forward = WHOLE * PRODUCTS.value * (12 + 2 * (1500 - 12)) + 2 * 450 + pauses * 300
    forward += CALLS_US + OTHER_CALL_US.value
    backward = WHOLE * PRODUCTS.value * (12 + 2 * (2250 - 12)) + pauses * 750
    update = 4 * ((10 + 2 * 10) + (12 + 2 * (380 - 12)) + 100)
    assert found.iteration_ms.value == pytest.approx(
        (2000 + forward + backward + update + 750) / 1e3, rel=0.005
    )
    assert found.speedup == pytest.approx(20 / found.iteration_ms.value)
    assert found.iteration_ms.low < found.iteration_ms.value < found.iteration_ms.high
    assert (found.semantics, found.provenance) == ("numerics", "modelled")


def test_batches_of_their_own_are_loaded_one_after_the_other(profile):
    subject = baseline(profile)
    shared, own = fused(subject, "4"), fused(subject, "4@own")
    assert own.iteration_ms.value - shared.iteration_ms.value == pytest.approx(3 * 2.0, rel=0.01)
    assert own.peak_bytes.value - shared.peak_bytes.value == pytest.approx(3 * subject.batch_bytes)


def test_memory_is_there_for_each_run_but_for_the_batch(profile):
    subject = baseline(profile)
    peak = subject.peak
    found = fused(subject, "8")
    assert found.peak_bytes.value == pytest.approx(8 * (peak.total - peak.other) + peak.other)


def test_a_convolution_is_a_grouped_one(profile):
    records = tuple(
        replace(one, name="aten::conv2d") if one.name == "aten::linear" else one
        for one in profile.trace.records
    )
    subject = baseline(replace(profile, trace=replace(profile.trace, records=records)))
    graph = compose(subject, [Choice("fuse_jobs", "2")]).scenario.graph
    chosen = select(graph, name="conv2d")
    assert graph.durations[chosen] == pytest.approx(CONVOLUTIONS.value * (12 + 2 * 1488), rel=0.01)


@pytest.mark.parametrize(("name", "steps"), [("aten::layer_norm", LAYER_NORMS), ("aten::batch_norm", NORMS)])
def test_a_normalization_is_taken_apart_into_its_steps(profile, name, steps):
    """450 µs, which are twice as long in a batch of twice the size."""
    records = tuple(
        replace(one, name=name) if one.name == "aten::relu" else one for one in profile.trace.records
    )
    subject = baseline(replace(profile, trace=replace(profile.trace, records=records)))
    graph = compose(subject, [Choice("fuse_jobs", "2")]).scenario.graph
    assert graph.durations[select(graph, name=name)] == pytest.approx(steps.value * 2 * 450, rel=0.01)


def test_an_idle_gpu_takes_the_work_of_all_runs(gpu_steps, on_a100):
    """The host launches for 9 ms, and the GPU works for 0.3 ms: with four runs for 1.2 ms at most."""
    subject = baseline(on_a100(gpu_steps(*HOST, 300.0), 9.0, 3.0, 2.0))
    found = fused(subject, "4")
    assert found.iteration_ms.value == pytest.approx(9.0 + CALLS_US / 1e3, rel=0.01)
    assert found.speedup == pytest.approx(4.0, rel=0.02)
    at_once_ms, assumed = processes_at_once(subject, 4)
    assert at_once_ms == pytest.approx(9.0, rel=0.01)
    assert "one at a time" in assumed
    assert any("4 processes at once would take 9" in one for one in found.assumptions)


@pytest.mark.parametrize("jobs", [2, 8])
def test_a_full_gpu_brings_nothing(gpu_steps, on_a100, jobs):
    """Its kernels take 12 ms, and those of all runs as many times as long, but for a start of 2 µs each."""
    subject = baseline(on_a100(gpu_steps(*HOST, 12_000.0), 12.0, 3.0, 2.0))
    found = fused(subject, str(jobs))
    assert found.speedup == pytest.approx(1.0, rel=0.02)
    assert processes_at_once(subject, jobs)[0] == pytest.approx(12.0 * jobs, rel=0.01)


def test_no_step_is_shorter_than_the_work_of_its_gpu(gpu_steps, on_a100):
    subject = baseline(on_a100(gpu_steps(*HOST, 6_000.0), 9.0, 3.0, 2.0))
    for jobs in (2, 4, 16):
        graph = compose(subject, [Choice("fuse_jobs", str(jobs))]).scenario.graph
        kernels = select(graph, kind=TaskKind.KERNEL)
        busy_ms = float(graph.durations[kernels].sum()) / 1e3 / len(graph.iterations)
        assert subject.step_ms(graph) >= (1 - 1e-6) * busy_ms
        assert fused(subject, str(jobs)).speedup <= jobs


def test_the_predictor_tells_which_kernels_leave_units_idle(layered):
    """Sixteen products of 8 × 8 take less than three times as long as one; of 4096 × 4096 each takes its time."""
    kernels = [("sgemm", Phase.FORWARD, 0, 10.0), ("sgemm", Phase.BACKWARD, 0, 10.0)]
    large = OperatorShape(
        "aten::mm", ((4096, 4096),) * 2, ("float32",) * 2, ((4096, 4096),), ("float32",), 2 * 4096**3, 3 * 4 * 4096**2
    )  # fmt: skip
    found = []
    for shape, took in ((MM, 5.0), (large, 8000.0)):
        subject = baseline(layered([(*one[:3], took) for one in kernels], shape))
        chosen = select(subject.operators, kind=TaskKind.KERNEL)
        found.append(kernel_factors(subject, subject.operators, chosen, 16))
    small, full = found
    assert np.all(small.likely < 3.0)
    assert np.all(full.likely > 12.0)
    for each in found:
        assert np.all(
            (each.least >= 1.0) & (each.least <= each.likely) & (each.likely <= each.most) & (each.most <= 16)
        )


def test_shapes_of_batched_operators():
    flops, sizes = 2 * 320 * 64 * 128, ((32, 10, 64), (128, 64), (128,))
    linear = OperatorShape("aten::linear", sizes, FORMATS, ((32, 10, 128),), FORMATS[:1], flops, 10)
    assert batched_shape(linear, 4).inputs == ((4, 320, 64), (4, 64, 128))
    assert batched_shape(linear, 4).outputs == ((4, 320, 128),)
    assert batched_shape(linear, 4).flops == 4 * linear.flops
    image, filters = (8, 3, 32, 32), (16, 3, 3, 3)
    forward = OperatorShape(
        "aten::convolution", (image, filters), ("float32",) * 2, ((8, 16, 32, 32),), ("float32",), 9, 9
    )
    assert batched_shape(forward, 4).inputs == ((8, 12, 32, 32), (64, 3, 3, 3))
    assert batched_shape(forward, 4).outputs == ((8, 64, 32, 32),)
    sizes = ((8, 16, 32, 32), image, filters)
    back = OperatorShape("aten::convolution_backward", sizes, FORMATS, (image, filters), FORMATS[:2], 9, 9)
    assert batched_shape(back, 4).inputs == ((8, 64, 32, 32), (8, 12, 32, 32), (64, 3, 3, 3))
    assert batched_shape(back, 4).outputs == ((8, 12, 32, 32), (64, 3, 3, 3))
    scalar = OperatorShape("aten::mul", ((8, 4), ()), ("float32",) * 2, ((8, 4),), ("float32",), 0, 9)
    assert batched_shape(scalar, 4).inputs == ((32, 4), ())


def test_processes_on_a_cpu_share_its_cores(profile):
    """Four cores hold two processes of two threads; eight of one thread each take twice as long as four would."""
    subject = baseline(profile)
    assert processes_at_once(subject, 2) == (
        pytest.approx(10.0, rel=0.01),
        "each computes on 2 threads and they share 4 cores evenly",
    )
    four, eight = (processes_at_once(subject, jobs)[0] for jobs in (4, 8))
    assert 10.0 < four < 20.0
    assert eight == pytest.approx(2 * four)


def test_it_is_answered_only_where_runs_are_named(profile):
    subject = baseline(profile)
    listed = {one.name: one for one in ranked(subject)}
    assert not listed["fuse_jobs"].applicable
    assert "needs a number of runs" in listed["fuse_jobs"].reason
    for value in ("1", "-2", "x", "4@", "4@other", "99999999"):
        with pytest.raises(UsageError, match="not possible"):
            fused(subject, value)


def test_reasons_where_it_cannot_be(profile):
    several = ParallelFact("DistributedDataParallel", "nccl", 4, None, False, False, False)
    recurrent = ModuleFact("Net.lstm", "LSTM", True, 8, True, {})
    table = ModuleFact("Net.table", "Embedding", True, 8, True, {"sparse": True})
    for changed, reason in (
        (replace(profile, parallel=several), "several ranks"),
        (replace(profile, modules=(table,)), "Net.table has sparse gradients"),
        (replace(profile, modules=(recurrent,)), "cannot batch the LSTM Net.lstm"),
    ):
        assert reason in detected_in(baseline(changed), whatifs()["fuse_jobs"]).reason
    both = answer(baseline(profile), [Choice("fuse_jobs", "2"), Choice("grad_accumulation", "2")])
    assert "together" in both.reason


def test_a_larger_batch_comes_first(profile):
    """Two runs with a batch of 16 each move the activations of one with 32."""
    subject = baseline(profile)
    both = answer(subject, [Choice("fuse_jobs", "2"), Choice("batch_size", "8")])
    assert both.reason is None
    alone = answer(subject, [Choice("batch_size", "8")])
    assert alone.iteration_ms.value < both.iteration_ms.value < 2 * alone.iteration_ms.value


def test_runs_count_where_samples_are_not_known(profile):
    """The speed is that of all runs, whether or not it can be said in samples."""
    known = fused(baseline(profile), "4")
    unknown = fused(
        baseline(replace(profile, batch=replace(profile.batch, samples_per_iteration=None), batch_size=None)),
        "4",
    )
    assert known.throughput is not None
    assert unknown.throughput is None
    assert unknown.speedup == pytest.approx(4 * 10 / unknown.iteration_ms.value, rel=0.01)
