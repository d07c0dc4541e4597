"""Hand-written attention: found by shapes, and what a fused operator leaves of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.trace.record import CodeLine, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.attention import written_out
from skyline.whatif.catalogue.models.sdpa import WHATIF as SDPA
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.subject import Grain

B, H, T, D = 2, 4, 64, 16
PAIRS, WIDE = (B, H, T, T), (B, H, T, D)
PRODUCT = 2 * B * H * T * T * D


def shape(name, *inputs, flops=0, dtype="float32"):
    return OperatorShape(name, inputs, (dtype,) * len(inputs), (), (), flops, 0)


def steps(*, masked=True, dropout_us=1.0, width=D):
    product = 2 * B * H * T * T * width
    made = [
        ("aten::linear", Phase.FORWARD, 500, shape("aten::linear", (B, T, 64), (192, 64), flops=3 * product)),
        ("aten::matmul", Phase.FORWARD, 200, shape("aten::matmul", WIDE, (B, H, D, T), flops=product)),
        ("aten::mul", Phase.FORWARD, 40, shape("aten::mul", PAIRS)),
    ]
    if masked:
        made.append(("aten::masked_fill", Phase.FORWARD, 90, shape("aten::masked_fill", PAIRS, (1, 1, T, T))))
    made += [
        ("aten::softmax", Phase.FORWARD, 100, shape("aten::softmax", PAIRS)),
        ("aten::dropout", Phase.FORWARD, dropout_us, shape("aten::dropout", PAIRS)),
        ("aten::matmul", Phase.FORWARD, 200, shape("aten::matmul", PAIRS, WIDE, flops=product)),
        ("aten::linear", Phase.FORWARD, 300, shape("aten::linear", (B, T, 64), (64, 64), flops=2 * product)),
        ("BmmBackward0", Phase.BACKWARD, 400, shape("BmmBackward0", (B * H, T, D), flops=2 * product)),
        ("SoftmaxBackward0", Phase.BACKWARD, 150, shape("SoftmaxBackward0", PAIRS)),
        ("MulBackward0", Phase.BACKWARD, 60, shape("MulBackward0", PAIRS)),
        ("BmmBackward0", Phase.BACKWARD, 400, shape("BmmBackward0", (B * H, T, T), flops=2 * product)),
    ]
    return made


def of_steps(profile, made, iterations=2):
    records, marks, clock = [], [], 0.0
    for iteration in range(iterations):
        begin = clock
        for number, (name, phase, took, _) in enumerate(made):
            # All of the attention stands on one line, both linear layers on another.
            line = 1 if "linear" in name else 0
            records.append(
                Record(
                    name,
                    RecordKind.OPERATOR,
                    phase,
                    "main",
                    iteration,
                    clock,
                    took,
                    line,
                    -1,
                    0,
                    shape=number,
                )
            )
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    lines = (CodeLine("/project/train.py", 5), CodeLine("/project/train.py", 6))
    trace = Trace(
        tuple(marks),
        lines,
        ("Attention",),
        tuple(records),
        profile.trace.allocations,
        tuple(one[3] for one in made),
    )
    return replace(profile, trace=trace)


def on_threads(threads, profile):
    return replace(profile, environment=replace(profile.environment, intraop_threads=threads))


def test_the_chain_is_found_with_its_backward_pass(profile):
    start = baseline(of_steps(profile, steps()))
    sites = written_out(start, start.operators)
    assert len(sites) == 2
    call = sites[0].calls[0]
    assert (call.pairs.heads, call.pairs.rows, call.pairs.width, call.pairs.causal) == (B * H, T, D, True)
    assert call.pairs.flops == 2 * PRODUCT
    names = [start.operators.tasks[index].name for index in call.others]
    assert names == ["aten::mul", "aten::masked_fill", "aten::dropout"]
    assert len(sites[0].backward_products) == 2
    assert len(sites[0].backward_others) == 2


def test_what_is_kept_goes_to_the_byte(profile):
    start = baseline(of_steps(profile, steps()))
    changed = SDPA.transform(Scenario.of(start, Grain.OPERATORS), "", start)
    assert "the mask is causal (is_causal=True)" in changed.assumptions
    gone = start.memory.levels.most_activations - changed.memory.levels.most_activations
    assert gone == pytest.approx(4 * B * H * T * T)
    # Dropout keeps its result and also a mask of bytes.
    dropping = baseline(of_steps(profile, steps(dropout_us=80)))
    (pairs,) = {call.pairs for site in written_out(dropping, dropping.operators) for call in site.calls}
    assert pairs.dropped
    assert pairs.kept_bytes == 9 * B * H * T * T


def test_on_a_cpu_nothing_is_fused_with_dropout(profile):
    start = baseline(of_steps(profile, steps(dropout_us=80)))
    assert "attention uses dropout" in SDPA.detect(start).reason
    scenario = Scenario.of(start, Grain.OPERATORS)
    assert SDPA.transform(scenario, "", start) is scenario


def test_the_products_stay_and_the_rest_goes(profile):
    start = baseline(on_threads(1, of_steps(profile, steps(masked=False))))
    graph = start.operators
    changed = SDPA.transform(Scenario.of(start, Grain.OPERATORS), "", start)
    call = written_out(start, graph)[0].calls[0]
    first, second = call.products
    products = graph.durations[[first, second]].sum()
    expected = 0.95 * products + 0.5 * graph.durations[call.softmax] + 4.0 * B * H
    assert changed.graph.durations[first] == pytest.approx(expected)
    assert changed.graph.durations[[second, call.softmax, *call.others]].sum() == 0
    backward = [
        index
        for index, task in enumerate(graph.tasks)
        if task.phase is Phase.BACKWARD and task.iteration == 0
    ]
    assert changed.graph.durations[backward].sum() == pytest.approx(2.5 * expected)
    linear = [index for index, task in enumerate(graph.tasks) if "linear" in task.name]
    assert np.array_equal(changed.graph.durations[linear], graph.durations[linear])


def test_short_heads_gain_less_from_threads_than_the_plain_products(profile):
    left = []
    for threads in (1, 2):
        start = baseline(on_threads(threads, of_steps(profile, steps())))
        changed = SDPA.transform(Scenario.of(start, Grain.OPERATORS), "", start)
        left.append(changed.graph.durations.sum())
    assert left[0] < left[1]


def test_a_hidden_half_is_cheaper(profile):
    times = []
    for masked in (True, False):
        start = baseline(of_steps(profile, steps(masked=masked)))
        changed = SDPA.transform(Scenario.of(start, Grain.OPERATORS), "", start)
        first = written_out(start, start.operators)[0].calls[0].products[0]
        times.append(changed.graph.durations[first] / start.operators.durations[first])
    assert times[0] < times[1]


@pytest.mark.parametrize("name", ["aten::softmax", "aten::matmul"])
def test_without_one_of_its_parts_it_is_none(profile, name):
    made = [one for one in steps() if one[0] != name]
    found = SDPA.detect(baseline(of_steps(profile, made)))
    assert found.reason == "no hand-written attention was recorded"


def test_a_softmax_over_classes_is_none(profile):
    made = [
        (
            "aten::linear",
            Phase.FORWARD,
            100,
            shape("aten::linear", (32, 64), (10, 64), flops=2 * 32 * 64 * 10),
        ),
        ("aten::softmax", Phase.FORWARD, 20, shape("aten::softmax", (32, 10))),
        (
            "aten::matmul",
            Phase.FORWARD,
            100,
            shape("aten::matmul", (32, 10), (10, 64), flops=2 * 32 * 64 * 10),
        ),
    ]
    assert not SDPA.detect(baseline(of_steps(profile, made))).applicable


def test_a_fused_one_is_told(profile):
    fused = "aten::scaled_dot_product_attention"
    made = [(fused, Phase.FORWARD, 100, shape(fused, WIDE, WIDE, WIDE, flops=2 * PRODUCT))]
    assert "fused operator already" in SDPA.detect(baseline(of_steps(profile, made))).reason


def test_a_batch_twice_as_large_is_twice_as_fused(profile):
    # Sizes come from the recording, times from the graph: what was made of it before is respected.
    start = baseline(of_steps(profile, steps()))
    graph = start.operators
    doubled = replace(
        Scenario.of(start, Grain.OPERATORS), graph=graph.with_times(durations=graph.durations * 2)
    )
    one = start.step_ms(SDPA.transform(Scenario.of(start, Grain.OPERATORS), "", start).graph)
    two = start.step_ms(SDPA.transform(doubled, "", start).graph)
    assert 1.8 * one < two < 2 * one


def test_together_with_bfloat16(profile):
    made = of_steps(profile, steps())
    made = replace(made, environment=replace(made.environment, cpu_features=("avx512f", "avx512_bf16")))
    start = baseline(made)

    def ms(*names):
        return start.step_ms(compose(start, [Choice(name) for name in names]).scenario.graph)

    # Fused attention is no faster in bfloat16 on a CPU, and its backward pass slower for each position of each head.
    assert ms("amp") < ms()
    assert ms("sdpa", "amp") > max(ms("amp"), ms("sdpa") - 0.4)
