"""Calls by autocast on a CPU: casts of weights once and of inputs each time, and oneDNN for products in 16 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.graph.task import PHASE
from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.numerics.amp import WHATIF as AMP
from skyline.whatif.catalogue.numerics.casts import (
    CASTS,
    Casts,
    calls_apart,
    casts_of,
    further_call_us,
    heavy_tasks,
    small_operator_us,
)
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.subject import Grain

ROWS, WIDTH, STEPS = 100, 16, 50
BATCH, WEIGHT, BIAS = (ROWS, WIDTH), (WIDTH, WIDTH), (1, WIDTH)
FLOPS = 2 * ROWS * WIDTH * WIDTH
SMALL_US, WAY_US = 0.7, 1.3
CELL, OTHER, LINEAR = 0, 1, 2


def shape(operator, *inputs, flops=0):
    return OperatorShape(operator, inputs, ("float32",) * len(inputs), flops=flops)


SHAPES = (
    shape("aten::matmul", BATCH, WEIGHT, flops=FLOPS),
    shape("aten::add", BATCH, BIAS),
    shape("aten::sigmoid", BATCH),
    shape("MmBackward0", BATCH, flops=2 * FLOPS),
    shape("aten::linear", BATCH, WEIGHT, (WIDTH,), flops=FLOPS),
    shape("aten::matmul", (8, WIDTH), WEIGHT, flops=2 * 8 * WIDTH * WIDTH),
    shape("aten::cross_entropy_loss", (10_000, 1_000), (10_000,)),
)
PRODUCT, ADD, SIGMOID, BACK, LAYER, FEW, LOSS = range(len(SHAPES))
STEP = ((PRODUCT, CELL), (ADD, CELL), (SIGMOID, CELL))


def unrolled(profile, forward=STEP * STEPS, backward=((BACK, CELL),) * STEPS, trainable=True, library=False):
    """Iterations of a cell written by hand, whose operators take next to no time, with the way behind each."""
    records, marks, clock = [], [], 0.0
    for index in range(3):
        begin = clock
        for phase, rows in ((Phase.FORWARD, forward), (Phase.BACKWARD, backward)):
            for number, module in rows:
                name = SHAPES[number].operator
                for kind, took in ((RecordKind.OPERATOR, SMALL_US), (RecordKind.PYTHON, WAY_US)):
                    of = (name, number) if kind is RecordKind.OPERATOR else ("python", -1)
                    record = Record(
                        of[0], kind, phase, "main", index, clock, took, 0, -1, module, shape=of[1]
                    )
                    records.append(record)
                    clock += took
        marks.append(IterationMark(index, begin, clock))
    step_ms, backward_ms = clock / 3e3, len(backward) * (SMALL_US + WAY_US) / 1e3
    times = replace(
        profile.times,
        steps_ms=(step_ms,) * 5,
        data_ms=(0.0,) * 5,
        backward_ms=(backward_ms,) * 5,
        optimizer_ms=(0.0,) * 5,
    )
    lines = (CodeLine("/project/train.py", 9),)
    trace = Trace(tuple(marks), lines, ("Net.cell", "Net.other", "Net.linear"), tuple(records), shapes=SHAPES)
    modules = (
        ModuleFact("Net.cell", "Cell", library, 272, trainable, {}, calls_per_iteration=STEPS),
        ModuleFact("Net.other", "Split", False, 0, True, {}),
        ModuleFact("Net.linear", "Linear", True, 272, True, {}),
    )
    features = ("avx512f", "avx512_bf16")
    environment = replace(profile.environment, cpu_features=features, cpu_count=2, intraop_threads=1)
    return replace(
        profile, trace=trace, times=times, modules=modules, environment=environment, trials=(), loaders=(),
        product_trials=(), calls=(),
    )  # fmt: skip


def counted(profile):
    """Of one iteration by pass, and by product of the first forward pass."""
    start = baseline(profile)
    graph = start.operators
    products = heavy_tasks(start, graph)
    found = casts_of(start, graph, products)
    by_pass = [
        float(found.calls[graph.tasks.phase[products] == PHASE[phase]].sum()) / start.steps
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    ]
    return by_pass, found.calls[0], found.weights[0]


def test_a_weight_is_cast_once_and_an_input_in_each_call(profile):
    """The bias that the cell adds is in float32, and so is what the next step takes."""
    by_pass, each, weights = counted(unrolled(profile))
    assert by_pass == [pytest.approx(STEPS + 1)] * 2
    assert each == pytest.approx(1 + 1 / STEPS)
    assert weights == pytest.approx(WIDTH * WIDTH / STEPS)


def test_a_weight_that_is_not_trained_is_cast_in_each_call(profile):
    by_pass, each, _ = counted(unrolled(profile, trainable=False))
    assert by_pass[0] == 2 * STEPS
    assert each == 2


def test_what_a_narrow_product_leaves_is_not_cast_again(profile):
    """Behind a product and an activation, where nothing in float32 is added."""
    plain = ((PRODUCT, CELL), (SIGMOID, CELL)) * STEPS
    by_pass, first, _ = counted(unrolled(profile, plain))
    assert by_pass[0] == pytest.approx(1 + 1)
    assert first == pytest.approx(1 + 1 / STEPS)


def test_layers_have_a_weight_and_a_bias_and_products_of_activations_neither(profile):
    _, layer, weights = counted(unrolled(profile, ((LAYER, LINEAR),)))
    assert layer == 3
    assert weights == WIDTH * WIDTH + WIDTH
    _, both, weights = counted(unrolled(profile, ((PRODUCT, OTHER),)))
    assert both == 2
    assert weights == 0


def test_bytes_of_weights_do_not_grow_with_the_batch():
    casts = Casts(np.array([2.0]), np.array([1100.0]), np.array([100.0]))
    assert casts.bytes_read(6, 4.0).tolist() == [6 * (100 + 4 * 1000)]


@pytest.mark.parametrize(("number", "called"), [(PRODUCT, True), (FEW, False)])
def test_products_from_a_size_on_are_given_to_another_library(profile, number, called):
    start = baseline(unrolled(profile, ((number, CELL),) * 4, ((BACK, CELL),) * 4))
    graph = start.operators
    products = heavy_tasks(start, graph)
    small_us = small_operator_us(start, Phase.FORWARD)
    assert small_us == pytest.approx(SMALL_US + WAY_US)
    further = further_call_us(start, graph, products, 1.0, "value") / small_us
    forward = graph.tasks.phase[products] == PHASE[Phase.FORWARD]
    assert further[forward].tolist() == [6.0 * called] * (4 * start.steps)
    assert further[~forward].tolist() == [12.0 * called] * (4 * start.steps)
    # The same in a batch that is large enough.
    assert further_call_us(start, graph, products, 4.0, "value")[0] == 6 * small_us


@pytest.mark.parametrize(("before", "times"), [(LAYER, 2), (ADD, 0)])
def test_a_loss_casts_what_products_left(profile, before, times):
    """Ten million logits are brought to float32, and their gradients back: 6 bytes for each at 20 GB/s."""
    plain, lossy = (
        baseline(unrolled(profile, ((before, LINEAR), *loss), ((BACK, CELL),)))
        for loss in ((), ((LOSS, OTHER),))
    )
    gained_ms = []
    for start in (plain, lossy):
        changed = AMP.transform(Scenario.of(start, Grain.OPERATORS), "bf16", start)
        gained_ms.append(start.step_ms(changed.graph) - start.iteration_ms.value)
    assert gained_ms[1] - gained_ms[0] == pytest.approx(times * 3.0, rel=0.01, abs=0.01)


def test_a_pass_without_small_operators_has_those_of_the_other(profile):
    """Layers of a hundred microseconds show no calls; the nodes of the backward pass do."""
    made = unrolled(profile, ((LAYER, LINEAR),) * 4)
    records = tuple(
        replace(one, start_us=50 * one.start_us, duration_us=50 * one.duration_us)
        if one.phase is Phase.FORWARD
        else replace(one, start_us=50 * one.start_us)
        for one in made.trace.records
    )
    marks = tuple(
        replace(one, start_us=50 * one.start_us, end_us=50 * one.end_us) for one in made.trace.iterations
    )
    step_ms = made.times.backward_ms[0] + 4 * 50 * (SMALL_US + WAY_US) / 1e3
    times = replace(made.times, steps_ms=(step_ms,) * 5)
    start = baseline(replace(made, trace=replace(made.trace, records=records, iterations=marks), times=times))
    assert small_operator_us(start, Phase.FORWARD) == small_operator_us(start, Phase.BACKWARD)
    assert small_operator_us(start, Phase.FORWARD) == pytest.approx(SMALL_US + WAY_US, rel=0.05)


def test_autocast_of_tiny_operators_costs_more_than_it_saves(profile):
    """Products that compute nothing gain nothing: casts and calls come on top."""
    start = baseline(unrolled(profile))
    changed = AMP.transform(Scenario.of(start, Grain.OPERATORS), "bf16", start)
    small_us, casts = SMALL_US + WAY_US, 2 * (STEPS + 1)
    more_us = CASTS.value * casts * small_us + 3 * STEPS * 6 * small_us
    now_us = 1e3 * start.iteration_ms.value
    assert 1e3 * start.step_ms(changed.graph) == pytest.approx(now_us + more_us, rel=0.03)


def test_calls_of_casts_go_where_the_model_is_compiled(profile):
    """They become part of generated code: the change by autocast is smaller by them."""
    start = baseline(unrolled(profile))
    scenarios = {
        words: compose(start, [Choice.parse(one) for one in words.split()]).scenario
        for words in ("amp=bf16", "compile", "compile amp=bf16")
    }
    took = {words: 1e3 * start.step_ms(one.graph) for words, one in scenarios.items()}
    calls_us = CASTS.value * 2 * (STEPS + 1) * (SMALL_US + WAY_US)
    alone = took["amp=bf16"] - 1e3 * start.iteration_ms.value
    assert took["compile amp=bf16"] - took["compile"] == pytest.approx(alone - calls_us, rel=0.05)


def test_no_more_becomes_the_hosts_than_operators_took_longer(profile):
    """Where operators were seen to take longer with their casts, in iterations under autocast."""
    start = baseline(unrolled(profile))
    graph = start.operators
    products = heavy_tasks(start, graph)
    casts = casts_of(start, graph, products)
    seen = np.ones(len(graph), np.bool_)
    calls_us = CASTS.value * casts.calls.sum() * (SMALL_US + WAY_US)
    for more_us, left_us in ((0.01, 0.0), (50.0, 50.0 * len(products) - calls_us)):
        longer = graph.durations.copy()
        longer[products] += more_us
        after = graph.with_times(longer)
        moved = calls_apart(start, graph, after, seen, casts, products)
        assert (moved.durations - graph.durations).sum() == pytest.approx(left_us, rel=0.01, abs=1e-6)
        assert start.step_ms(moved) == pytest.approx(start.step_ms(after))
