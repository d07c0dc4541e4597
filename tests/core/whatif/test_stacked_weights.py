"""Weights of several models in one tensor: a linear layer, its gradient and its update, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.graph.selection import select
from skyline.trace.facts import ModuleFact
from skyline.trace.record import Allocation, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.batched_operators import PRODUCTS
from skyline.whatif.catalogue.models.stacked_weights import (
    TURNED_NS,
    UPDATE_BYTES_PER_US,
    by_model,
    provided_us,
    turned_us,
    updated_us,
)
from skyline.whatif.composition import compose
from skyline.whatif.cost.thread_scaling import PLAIN_PART
from skyline.whatif.question import Choice

NUMBERS = 400 * 300
BYTES = 4 * NUMBERS
LINEAR = ModuleFact("Net.0", "Linear", True, NUMBERS, True, {"in_features": 400, "out_features": 300})
SHAPES = (
    OperatorShape("aten::linear", ((32, 400), (300, 400)), ("float32",) * 2, flops=2 * 32 * NUMBERS),
    OperatorShape("aten::sqrt", ((300, 400),), ("float32",)),
    OperatorShape("aten::mul_", ((300, 400), ()), ("float32",) * 2),
)
WORK = (
    ("aten::linear", Phase.FORWARD, 100.0, 0, 0),
    ("AddmmBackward0", Phase.BACKWARD, 200.0, 0, -1),
    ("torch::autograd::AccumulateGrad", Phase.BACKWARD, 1.0, 0, -1),
    ("aten::sqrt", Phase.OPTIMIZER, 9.0, -1, 1),
    ("aten::mul_", Phase.OPTIMIZER, 6.0, -1, 2),
)
GRADIENT = Allocation(150.0, BYTES, 1, Phase.BACKWARD)


@pytest.fixture
def linear(profile):
    """One linear layer, whose gradient lives until the next iteration."""

    def made(threads=1, us_per_mb=200.0):
        records, marks, clock = [], [], 0.0
        for number in range(2):
            begin = clock
            for name, phase, took, module, shape in WORK:
                records.append(
                    Record(
                        name,
                        RecordKind.OPERATOR,
                        phase,
                        "main",
                        number,
                        clock,
                        took,
                        module=module,
                        shape=shape,
                    )
                )
                clock += took
            marks.append(IterationMark(number, begin, clock))
        trace = Trace(tuple(marks), (), ("Net.0",), tuple(records), (GRADIENT,), SHAPES)
        environment = replace(profile.environment, intraop_threads=threads)
        return baseline(
            replace(
                profile,
                trace=trace,
                modules=(LINEAR,),
                environment=environment,
                large_block_us_per_mb=us_per_mb,
            )
        )

    return made


def named(subject, times_us, name):
    graph = subject.operators
    return times_us[select(graph, name=name)].tolist()


@pytest.mark.parametrize(("threads", "divided"), [(1, 1.0), (2, 1 - PLAIN_PART.value / 2)])
def test_a_gradient_is_turned_once_in_each_backward_pass(linear, threads, divided):
    subject = linear(threads)
    added = turned_us(subject, subject.operators, 4, "value")
    whole_us = 4 * NUMBERS * TURNED_NS.value / 1e3
    assert named(subject, added, "AccumulateGrad") == pytest.approx([divided * whole_us] * 2)
    assert added.sum() == pytest.approx(2 * divided * whole_us)


def test_a_convolution_and_a_shared_weight_have_their_gradients_in_order(linear):
    subject = linear()
    for other in (replace(LINEAR, class_name="Conv2d"), replace(LINEAR, parameter_count=300)):
        alike = baseline(replace(subject.script, modules=(other,)))
        assert not turned_us(alike, alike.operators, 4, "value").any()


def test_gradients_of_few_models_stay_and_those_of_many_go_back_to_the_system(linear):
    """One of 0.48 MB is kept where 0.94 MB was freed before; four of them make one block, which alone is kept, too."""
    subject = linear()
    two = replace(LINEAR, path="Net.1")
    pair = (GRADIENT, replace(GRADIENT, address=2))
    subject = baseline(
        replace(subject.script, modules=(LINEAR, two), trace=replace(subject.script.trace, allocations=pair))
    )
    graph = subject.operators
    assert not provided_us(subject, graph, 1).any()
    added = provided_us(subject, graph, 2)
    assert named(subject, added, "AccumulateGrad") == pytest.approx([200.0 * 2 * 2 * BYTES / 1e6] * 2)
    alone = linear()
    assert named(alone, provided_us(alone, alone.operators, 4), "AccumulateGrad") == [0.0, 0.0]
    assert not provided_us(linear(us_per_mb=0.0), graph, 4).any()


def test_results_of_an_update_go_back_where_they_are_the_largest_blocks(linear):
    subject = linear()
    added = provided_us(subject, subject.operators, 4)
    assert named(subject, added, "aten::sqrt") == pytest.approx([200.0 * 4 * BYTES / 1e6] * 2)
    assert named(subject, added, "aten::mul_") == [0.0, 0.0]
    larger = replace(GRADIENT, size_bytes=3 * BYTES, phase=Phase.FORWARD)
    trace = replace(subject.script.trace, allocations=(GRADIENT, larger))
    other = baseline(replace(subject.script, trace=trace))
    assert not provided_us(other, other.operators, 4).any()


def test_an_update_takes_the_bytes_of_each_further_model(linear):
    """The recorded time of a longer operator shows them."""
    subject = linear()
    graph = subject.operators.with_times(durations=np.full(len(subject.operators), 9.0))
    least = updated_us(subject, graph, 3, "value")
    at = select(graph, phase=Phase.OPTIMIZER)
    assert least[at] == pytest.approx([9.0 + 2 * BYTES / UPDATE_BYTES_PER_US.value] * 4)
    assert not least[np.setdiff1d(np.arange(len(least)), at)].any()
    longer = graph.with_times(durations=10 * graph.durations)
    assert not updated_us(subject, longer, 3, "value").any()


def test_threads_compute_whole_products(linear):
    """Two threads divide 0.88 of a product, and take 0.56 of its time on one; of two products each computes one."""
    subject = linear(threads=2)
    products = select(subject.operators, name="aten::linear")
    share = 0.5 / (1 - PLAIN_PART.value / 2)
    assert by_model(subject, subject.operators, products, 2) == pytest.approx([share, share])
    assert by_model(subject, subject.operators, products, 3) == pytest.approx([1.0, 1.0]), "one thread waits"
    assert by_model(linear(), subject.operators, products, 2).tolist() == [1.0, 1.0]


def test_the_answer_has_all_of_them(linear):
    subject = linear()
    graph = compose(subject, [Choice("fuse_jobs", "4")]).scenario.graph
    took = named(subject, graph.durations, "AccumulateGrad")
    now = named(subject, subject.operators.durations, "AccumulateGrad")
    turned = 4 * NUMBERS * TURNED_NS.value / 1e3
    assert all(
        turned < then <= turned + 4 * PRODUCTS.value * one for then, one in zip(took, now, strict=True)
    )
