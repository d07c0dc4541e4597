"""Gradients exchanged between the GPUs of a profiled job: its all-reduces are kernels on a stream of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.selection import select
from skyline.trace.facts import ParallelFact
from skyline.trace.record import Phase
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
    assert "not known" in found.reason
    assert "not looked for" in detected_in(exchanging, whatifs()["static_graph"]).reason
