"""Other links between ranks: data takes less time, messages and waiting as much as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.trace.facts import ParallelFact
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


@pytest.fixture
def exchanging(layered):
    """A forward and a backward kernel of 2 ms, and an exchange of 4 ms behind each on the same stream."""
    kernels = [
        ("sgemm", Phase.FORWARD, 0, 2_000.0),
        ("sgemm", Phase.BACKWARD, 0, 2_000.0),
        (NCCL, Phase.COMMUNICATION, 0, 4_000.0),
    ]
    profile = layered(kernels, OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float32",) * 2))
    fact = ParallelFact("DistributedDataParallel", "nccl", 4, None, False, False, False, gradient_bytes=10**7)
    return baseline(replace(profile, parallel=fact))


@pytest.mark.parametrize(("value", "left"), [("2", 0.6), ("10", 0.28), ("0.5", 1.8)])
def test_four_fifths_of_a_collective_move_data(exchanging, value, left):
    found = answer(exchanging, [Choice("network", value)])
    assert 8.0 / found.speedup == pytest.approx(4.0 + 4.0 * left, rel=0.01)
    assert found.speedup_range.low <= found.speedup <= found.speedup_range.high
    exchange = select(exchanging.operators, name=NCCL)
    after = compose(exchanging, [Choice("network", value)]).scenario.graph.durations[exchange]
    assert after.sum() == pytest.approx(left * exchanging.operators.durations[exchange].sum())


def test_at_worst_all_of_it_is_waiting(exchanging):
    found = answer(exchanging, [Choice("network", "2")])
    assert found.speedup_range.low == pytest.approx(1.0, abs=0.01)
    assert found.speedup_range.high == pytest.approx(8.0 / 6.0, rel=0.02)


def test_nothing_to_shorten(exchanging, profile):
    assert (
        "does not use DistributedDataParallel" in detected_in(baseline(profile), whatifs()["network"]).reason
    )
    for value in ("fast", "0.009", "1000.5", "nan"):
        with pytest.raises(UsageError, match="not possible"):
            answer(exchanging, [Choice("network", value)])
    assert answer(exchanging, [Choice("network", "1000")]).applicable
