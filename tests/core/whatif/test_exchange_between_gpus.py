"""Gradients exchanged between the GPUs of a profiled job: its all-reduces are kernels on a stream of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.selection import select
from skyline.trace.facts import ModuleFact, ParallelFact
from skyline.trace.record import CodeLine, IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


@pytest.fixture
def exchanging(gpu_steps, on_a100):
    profile = on_a100(gpu_steps(400.0, 300.0, 200.0, 6_000.0), 6.0, 0.3, 0.2)
    records = tuple(
        replace(one, name=NCCL, phase=Phase.COMMUNICATION, lane="gpu0:stream20")
        if one.kind.value == "kernel" and one.phase is Phase.BACKWARD
        else one
        for one in profile.trace.records
    )
    fact = ParallelFact("DistributedDataParallel", "nccl", 4, None, False, False, False, gradient_bytes=10**7)
    return baseline(replace(profile, trace=replace(profile.trace, records=records), parallel=fact))


def test_half_the_data_takes_about_half_the_time(exchanging):
    composed = compose(exchanging, [Choice("ddp_compression")])
    assert composed.reason == ""
    exchange = select(exchanging.operators, name=NCCL)
    after = composed.scenario.graph.durations[exchange].sum()
    assert after == pytest.approx(0.55 * exchanging.operators.durations[exchange].sum())


def test_what_is_not_known_of_buckets_is_said(exchanging):
    found = detected_in(exchanging, whatifs()["ddp_bucket"])
    assert "not both recorded" in found.reason
    assert "does not search for" in detected_in(exchanging, whatifs()["static_graph"]).reason


def layer(number: int, megabytes: float) -> ModuleFact:
    return ModuleFact(f"Net.{number}", "Linear", True, int(megabytes * 1e6 / 4), True, {})


def two_buckets() -> Trace:
    """Two layers take 10 ms in each pass. The 20 MB of the second travel for 20 ms, the 10 MB of the first for 10.

    The first bucket leaves at 30 ms and ends at 50 ms, the second one at 60 ms; then the update takes 0.1 ms.
    """
    plan = (
        ("sgemm", Phase.FORWARD, 0, "gpu0:stream7", 0.0, 10.0, False),
        ("sgemm", Phase.FORWARD, 1, "gpu0:stream7", 10.0, 10.0, False),
        ("sgemm", Phase.BACKWARD, 1, "gpu0:stream7", 20.0, 10.0, False),
        (NCCL, Phase.COMMUNICATION, -1, "gpu0:stream20", 30.0, 20.0, True),
        ("sgemm", Phase.BACKWARD, 0, "gpu0:stream7", 30.0, 10.0, False),
        (NCCL, Phase.COMMUNICATION, -1, "gpu0:stream20", 50.0, 10.0, True),
        ("update", Phase.OPTIMIZER, 0, "gpu0:stream7", 60.0, 0.1, True),
    )
    records: list[Record] = []
    marks: list[IterationMark] = []
    number = 0
    for index in range(3):
        begin = now = index * 60_110.0
        for name, phase, module, lane, at_ms, took_ms, waits in plan:
            if waits:
                records.append(
                    Record(
                        "cudaStreamWaitEvent", RecordKind.RUNTIME, phase, "cpu:main", index, now, 1.0, line=0
                    )
                )
                now += 1
            number += 1
            launch = Record(
                "cudaLaunchKernel", RecordKind.RUNTIME, phase, "cpu:main", index, now, 5.0, line=0
            )
            records.append(replace(launch, correlation=number, module=module))
            now += 5
            kernel = Record(
                name, RecordKind.KERNEL, phase, lane, index, begin + 5 + at_ms * 1e3, took_ms * 1e3, line=0
            )
            records.append(replace(kernel, correlation=number, module=module))
        wait = begin + 60_110.0 - now
        records.append(
            Record("cudaDeviceSynchronize", RecordKind.RUNTIME, Phase.OTHER, "cpu:main", index, now, wait)
        )
        marks.append(IterationMark(index, begin, begin + 60_110.0))
    return Trace(tuple(marks), (CodeLine("/project/train.py", 3),), ("Net.0", "Net.1"), tuple(records))


@pytest.fixture
def two_layers(on_a100):
    fact = ParallelFact(
        "DistributedDataParallel", "nccl", 2, None, False, False, False, gradient_bytes=3 * 10**7
    )
    profile = on_a100(two_buckets(), 60.1, 0.01, 0.0)
    return baseline(replace(profile, modules=(layer(0, 10), layer(1, 20)), parallel=fact))


def test_one_bucket_for_all_gradients_hides_nothing(two_layers):
    """It leaves at 40 ms and takes 30 ms."""
    scenario = compose(two_layers, [Choice("ddp_bucket", "50")]).scenario
    assert two_layers.step_ms(scenario.graph) == pytest.approx(70.1, rel=0.01)


def test_the_buckets_that_there_are_take_the_recorded_time(two_layers):
    scenario = compose(two_layers, [Choice("ddp_bucket", "25")]).scenario
    assert two_layers.step_ms(scenario.graph) == pytest.approx(
        two_layers.step_ms(two_layers.operators), rel=0.01
    )


def test_only_buckets_that_differ_are_offered(two_layers):
    """With 1, 5 or 10 MB each layer still fills a bucket; from 50 MB on both share one."""
    assert detected_in(two_layers, whatifs()["ddp_bucket"]).values == ("50", "100", "200")


def test_other_buckets_than_the_gradients_fill_are_refused(two_layers):
    parallel = replace(two_layers.script.parallel, bucket_cap_mb=100.0)
    found = detected_in(baseline(replace(two_layers.script, parallel=parallel)), whatifs()["ddp_bucket"])
    assert found.reason == "2 all-reduces were recorded, and the gradients fill 1 buckets"
