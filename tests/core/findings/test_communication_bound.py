from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.communication_bound import RULE
from skyline.trace.facts import ParallelFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace

LAYER = (1024, 1024)
FACT = ParallelFact("DistributedDataParallel", "gloo", 2, 25.0, False, False, False, gradient_bytes=8 << 20)


def replicas(profile, waited_us):
    """On a CPU: forward 4 ms, two gradients after 2 ms each, the wait for the other rank, a step of 2 ms."""
    rows = [
        ("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, 4000.0, -1),
        ("AddmmBackward0", RecordKind.OPERATOR, Phase.BACKWARD, 1900.0, -1),
        ("torch::autograd::AccumulateGrad", RecordKind.OPERATOR, Phase.BACKWARD, 100.0, 0),
        ("AddmmBackward0", RecordKind.OPERATOR, Phase.BACKWARD, 1900.0, -1),
        ("torch::autograd::AccumulateGrad", RecordKind.OPERATOR, Phase.BACKWARD, 100.0, 0),
        ("python", RecordKind.PYTHON, Phase.BACKWARD, waited_us, -1),
        ("aten::add_", RecordKind.OPERATOR, Phase.OPTIMIZER, 2000.0, -1),
    ]
    records, marks, clock = [], [], 0.0
    for iteration in range(3):
        begin = clock
        for name, kind, phase, took, shape in rows:
            records.append(Record(name, kind, phase, "main", iteration, clock, took, shape=shape))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    shapes = (OperatorShape("AccumulateGrad", (LAYER,), ("float32",)),)
    step, backward = (clock - marks[-1].start_us) / 1e3, (4000.0 + waited_us) / 1e3
    return replace(
        profile,
        trace=Trace(tuple(marks), (), (), tuple(records), shapes=shapes),
        times=BareTimes((step,) * 9, (0.0,) * 9, (backward,) * 9, (2.0,) * 9),
        parallel=replace(FACT, created_line=profile.loop_line),
        loaders=(),
        trials=(),
    )


def test_on_a_cpu_the_wait_for_gradients_is_the_cost(profile, checked):
    found = checked(RULE, replicas(profile, 5000.0))
    assert found.cost_ms == pytest.approx(5.0, rel=0.05)
    assert found.line == 4
    assert "gloo" in found.evidence[1].text


def test_on_a_gpu_it_is_what_nothing_hides(gpu_script, checked):
    exposed = gpu_script([("sgemm", 500.0)], phase=Phase.COMMUNICATION)
    found = checked(RULE, exposed)
    assert found.title.endswith("waiting for communication between processes")
    assert found.cost_ms > 0.3


def test_hidden_or_no_communication_is_left_alone(profile, gpu_script, traced, checked):
    assert checked(RULE, replicas(profile, 200.0)) is None
    assert checked(RULE, replace(replicas(profile, 5000.0), parallel=None)) is None
    assert checked(RULE, gpu_script([("sgemm", 500.0)])) is None
    assert checked(RULE, profile) is None
    assert checked(RULE, traced) is None
