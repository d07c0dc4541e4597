"""Products that were tried in bfloat16 where the script ran: their tasks, and the cost of autocast in addition."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.trace.trial import ProductTrial, TriedTimes
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.numerics.casts import wide_inputs
from skyline.whatif.catalogue.numerics.cpu_narrowing import tried_factors
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice

OPERATOR = RecordKind.OPERATOR
BATCH, HIDDEN = (64, 512), (64, 256)
FIRST, SECOND = (BATCH, (256, 512)), (HIDDEN, (16, 256))
SHAPES = (
    OperatorShape("aten::linear", FIRST, ("float32",) * 2, flops=2 * 64 * 256 * 512),
    OperatorShape("aten::relu", (HIDDEN,), ("float32",)),
    OperatorShape("aten::linear", SECOND, ("float32",) * 2, flops=2 * 64 * 16 * 256),
    OperatorShape("AddmmBackward0", ((64, 16),), ("float32",), flops=4 * 64 * 16 * 256),
    OperatorShape("AddmmBackward0", (HIDDEN,), ("float32",), flops=4 * 64 * 256 * 512),
    OperatorShape("AddmmBackward0", ((7, 7),), ("float32",), flops=100),
)
# Name, phase, µs, shape.
ROWS = (
    ("aten::linear", Phase.FORWARD, 1000, 0),
    ("aten::relu", Phase.FORWARD, 100, 1),
    ("aten::linear", Phase.FORWARD, 500, 2),
    ("AddmmBackward0", Phase.BACKWARD, 800, 3),
    ("AddmmBackward0", Phase.BACKWARD, 2000, 4),
    ("AddmmBackward0", Phase.BACKWARD, 300, 5),
)


def trial(inputs, forward, backward, elements, flops):
    """Ratios of bfloat16 to float32; on one thread instead of two everything takes 1.6 times as long, or narrow 1.2."""
    passes = (
        TriedTimes(100.0, 100.0 * ratio, 160.0, 100.0 * ratio * 1.2) if ratio else TriedTimes()
        for ratio in (forward, backward)
    )
    return ProductTrial("aten::linear", inputs, "bfloat16", *passes, elements, flops, 2, 1)


TRIALS = (
    trial(FIRST, 0.25, 0.5, 64 * 256, SHAPES[0].flops),
    trial(SECOND, 1.5, 0.75, 64 * 16, SHAPES[2].flops),
    # As large a result with far less arithmetic: not the one meant.
    trial((HIDDEN, (256, 256)), 0.9, 0.1, 64 * 256, 40),
)


@pytest.fixture
def tried(profile):
    records, marks, clock = [], [], 0.0
    for index in range(3):
        begin = clock
        for name, phase, took, shape in ROWS:
            records.append(Record(name, OPERATOR, phase, "main", index, clock, took, shape=shape))
            clock += took
        marks.append(IterationMark(index, begin, clock))
    trace = Trace(tuple(marks), (), (), tuple(records), shapes=SHAPES)
    features = ("avx512f", "avx512_bf16")
    return replace(
        profile,
        trace=trace,
        loaders=(),
        trials=(),
        product_trials=TRIALS,
        environment=replace(profile.environment, cpu_features=features, cpu_count=2, intraop_threads=2),
    )


def products(graph):
    chosen = select(graph, kind=TaskKind.CPU)
    names = [graph.tasks.names[name] for name in graph.tasks.name[chosen]]
    return chosen[[name != "aten::relu" for name in names]]


def test_a_product_is_known_by_its_sizes_and_on_the_way_back_by_its_result(tried):
    start = baseline(tried)
    found = tried_factors(start, start.operators, products(start.operators))
    once = found[:5].tolist()
    assert once[:4] == [0.25, 1.5, 0.75, 0.5]
    assert isnan(once[4])


def test_larger_batches_gain_more_and_what_loses_does_not_change(tried):
    start = baseline(tried)
    heavy = products(start.operators)
    usual, larger, smaller = (
        tried_factors(start, start.operators, heavy, factor) for factor in (1.0, 4.0, 0.25)
    )
    assert larger[0] < usual[0] < smaller[0] < 1
    assert larger[1] == usual[1] == smaller[1] == 1.5


def test_products_of_two_activations_have_no_weight_whose_cast_stands(tried):
    """Attention by batched products: in four times the batch they gain as much as before."""
    records = tuple(
        replace(one, name="aten::bmm") if one.name == "aten::linear" else one for one in tried.trace.records
    )
    shapes = tuple(
        replace(one, operator="aten::bmm") if one.operator == "aten::linear" else one for one in SHAPES
    )
    trials = tuple(
        replace(one, operator="aten::bmm") if one.operator == "aten::linear" else one for one in TRIALS
    )
    trace = replace(tried.trace, records=records, shapes=shapes)
    start = baseline(replace(tried, trace=trace, product_trials=trials))
    heavy = products(start.operators)
    usual, larger = (tried_factors(start, start.operators, heavy, factor) for factor in (1.0, 4.0))
    batched = [start.operators.tasks[task].name == "aten::bmm" for task in heavy.tolist()]
    assert any(batched)
    assert larger[batched].tolist() == usual[batched].tolist()


def test_without_trials_nothing_is_known(tried):
    start = baseline(replace(tried, product_trials=()))
    assert np.isnan(tried_factors(start, start.operators, products(start.operators))).all()


def test_what_comes_behind_a_narrow_result_needs_no_cast(tried):
    graph = baseline(tried).operators
    forward = select(graph, kind=TaskKind.CPU, phase=Phase.FORWARD)
    names = [graph.tasks.names[name] for name in graph.tasks.name[forward]]
    linear = forward[[name == "aten::linear" for name in names]]
    # Each iteration begins with a batch in float32; the second product takes what relu left of the first.
    assert wide_inputs(graph, linear)[:2] == [True, False]


def test_amp_is_answered_with_what_was_tried(tried):
    start, without = baseline(tried), baseline(replace(tried, product_trials=()))
    choice = [Choice.parse("amp=bf16")]
    known, unknown = compose(start, choice).scenario, compose(without, choice).scenario
    assert any("separate trials" in said for said in known.assumptions)
    assert not any("separate trials" in said for said in unknown.assumptions)
    factors = known.graph.durations / start.operators.durations
    heavy = products(start.operators)
    # The tried ratio, and the casts in addition.
    assert 0.25 <= factors[heavy[0]] < 0.35
    assert 1.5 <= factors[heavy[1]] < 1.6
    assert known.below_ms + known.above_ms < unknown.below_ms + unknown.above_ms


@pytest.mark.parametrize(("others", "factor"), [([], 1.6), (["amp=bf16"], 1.2)])
def test_other_threads_are_answered_with_what_was_tried(tried, others, factor):
    start = baseline(tried)
    threads, others = Choice.parse("cpu_threads=1"), [Choice.parse(one) for one in others]
    before = compose(start, others).scenario.graph if others else start.operators
    after = compose(start, [*others, threads]).scenario.graph
    heavy = products(start.operators)
    factors = after.durations[heavy] / before.durations[heavy]
    assert factors[:4] == pytest.approx(factor)


def test_without_trials_threads_are_answered_with_what_is_usual(tried):
    start, without = baseline(tried), baseline(replace(tried, product_trials=()))
    choice = [Choice.parse("cpu_threads=1")]
    heavy = products(start.operators)
    with_trials, usual = (compose(one, choice).scenario.graph.durations[heavy] for one in (start, without))
    assert (with_trials[:4] != usual[:4]).all()
    # Nothing like the last was tried.
    assert with_trials[4] == usual[4]
