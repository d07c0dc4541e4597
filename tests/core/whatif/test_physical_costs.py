"""Costs that grow with a batch and costs that do not, work that threads divide, and the handing over of tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.graph.build import build
from skyline.graph.selection import select
from skyline.graph.task import PARTS, Part, TaskKind, parts_of
from skyline.interval import Interval
from skyline.predict.fetching_costs import FetchingCosts
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.fusion import BEST, LIKELY, Group, fused, regions
from skyline.whatif.catalogue.host.pooling import PoolingKind
from skyline.whatif.catalogue.memory.batch_scaling import grown
from skyline.whatif.cost.thread_scaling import (
    CALL_US,
    Division,
    _tried_of,
    factors,
    split_in_loader,
    split_tasks,
)
from skyline.whatif.subject import Grain

OPERATOR, PYTHON, DATA = RecordKind.OPERATOR, RecordKind.PYTHON, RecordKind.DATA
LARGE = ((512, 512),) * 2
SHAPES = (
    OperatorShape("aten::linear", LARGE, ("float32",) * 2),
    OperatorShape("ConvolutionBackward0", ((32, 64, 32, 32),), ("float32",)),
    OperatorShape("EmbeddingBackward0", ((4096, 64),), ("float32",)),
    OperatorShape("aten::conv2d", ((1, 3, 32, 32), (3, 1, 5, 1)), ("float32",) * 2),
    OperatorShape("aten::addcdiv_", ((40_000, 64),) * 3, ("float32",) * 3),
)
# Name, kind, phase, µs, shape.
ROWS = (
    ("aten::conv2d", DATA, Phase.DATA, 400, 3),
    ("aten::linear", OPERATOR, Phase.FORWARD, 1000, 0),
    ("forward", PYTHON, Phase.FORWARD, 300, -1),
    ("ConvolutionBackward0", OPERATOR, Phase.BACKWARD, 2000, 1),
    ("EmbeddingBackward0", OPERATOR, Phase.BACKWARD, 1000, 2),
    ("aten::addcdiv_", OPERATOR, Phase.OPTIMIZER, 1000, 4),
)


@pytest.fixture
def trained(profile):
    records, marks, clock = [], [], 0.0
    for index in range(3):
        begin = clock
        for name, kind, phase, took, shape in ROWS:
            records.append(Record(name, kind, phase, "main", index, clock, took, shape=shape))
            clock += took
        marks.append(IterationMark(index, begin, clock))
    trace = Trace(tuple(marks), (), (), tuple(records), shapes=SHAPES)
    return replace(profile, trace=trace, loaders=(), trials=())


def times_of(graph, phase):
    chosen = select(graph, phase=phase)
    return float(graph.durations[chosen].sum()), float(graph.gaps[chosen].sum())


def by_part(**factor_of):
    return np.array([factor_of.get(part.value, 1.0) for part in PARTS])


def test_python_and_calls_stand_while_the_rest_grows(trained):
    graph = build(trained.trace)
    parts = parts_of(graph.tasks)
    # Four times the batch takes 3.4 times as long: a fifth of 1300 µs, 260 µs, does not grow.
    after = grown(graph, "main", parts, by_part(rest=3.4), 4.0)
    work, python = times_of(graph, Phase.FORWARD)
    then, python_then = times_of(after, Phase.FORWARD)
    assert then + python_then == pytest.approx(3.4 * (work + python))
    standing = 300 + CALL_US
    # All but 260 µs of what could stand grows like the rest, by four.
    assert python_then / 3 == pytest.approx(300 * (260 + 4 * (standing - 260)) / standing)
    assert times_of(after, Phase.BACKWARD) == times_of(graph, Phase.BACKWARD)


def test_what_is_known_to_stand_stands_before_the_rest(trained):
    graph = build(trained.trace)
    cleared = [graph.tasks.names[name] == "EmbeddingBackward0" for name in graph.tasks.name]
    standing = np.where(cleared, 0.9, 0.0)
    # Of 3000 µs, 2000 of them a convolution's, 4.0 times as much data take 3.1 times as long: 900 µs do not grow.
    after = grown(graph, "main", parts_of(graph.tasks), by_part(backward=3.1), 4.0, standing)
    alike = grown(graph, "main", parts_of(graph.tasks), by_part(backward=3.1), 4.0)
    whole = times_of(after, Phase.BACKWARD)[0] / 3
    assert whole == pytest.approx(3.1 * 3000)
    growth = float((after.durations / graph.durations)[cleared].mean())
    clearing = CALL_US + 0.9 * (1000 - CALL_US)
    kept = 900 / (clearing + CALL_US)
    assert growth * 1000 == pytest.approx(kept * clearing + 4 * (1000 - kept * clearing))
    assert float((alike.durations / graph.durations)[cleared].mean()) > growth


def test_what_was_tried_in_such_a_batch_shares_out_the_part(trained):
    graph = build(trained.trace)
    chosen = select(graph, phase=Phase.BACKWARD)
    seen = np.full(len(graph), np.nan)
    seen[chosen] = np.where(np.arange(len(chosen)) % 2 == 0, 2.0, 3.6)
    after = grown(graph, "main", parts_of(graph.tasks), by_part(backward=3.1), 4.0, None, seen)
    assert sum(times_of(after, Phase.BACKWARD)) == pytest.approx(3.1 * sum(times_of(graph, Phase.BACKWARD)))
    growth = after.durations[chosen] / graph.durations[chosen]
    assert growth[1] / growth[0] == pytest.approx(1.8)
    # Python between the operators is the same whatever the batch.
    assert (after.gaps[chosen] == graph.gaps[chosen]).all()


def test_what_was_tried_for_little_of_a_part_or_far_from_the_curve_is_left_alone(trained):
    graph = build(trained.trace)
    parts = parts_of(graph.tasks)
    alike = grown(graph, "main", parts, by_part(backward=3.1), 4.0)
    unknown = np.full(len(graph), np.nan)
    elsewhere = np.full(len(graph), 9.0)
    for seen in (unknown, elsewhere):
        after = grown(graph, "main", parts, by_part(backward=3.1), 4.0, None, seen)
        chosen = select(graph, phase=Phase.BACKWARD)
        assert after.durations[chosen].tolist() == pytest.approx(alike.durations[chosen].tolist())


def test_what_grows_faster_than_the_batch_has_nothing_that_stands(trained):
    graph = build(trained.trace)
    after = grown(graph, "main", parts_of(graph.tasks), by_part(rest=5.0), 4.0)
    assert times_of(after, Phase.FORWARD) == pytest.approx(
        [5.0 * one for one in times_of(graph, Phase.FORWARD)]
    )


def test_the_parts_without_standing_costs_and_other_lanes(trained):
    graph = build(trained.trace)
    after = grown(graph, "elsewhere", parts_of(graph.tasks), by_part(rest=3.0, optimizer=2.0), 4.0)
    assert (after.durations == graph.durations).all()
    after = grown(graph, "main", parts_of(graph.tasks), by_part(optimizer=2.0, loader=4.0), 4.0)
    assert times_of(after, Phase.OPTIMIZER)[0] == pytest.approx(2 * times_of(graph, Phase.OPTIMIZER)[0])
    assert times_of(after, Phase.DATA)[0] == pytest.approx(4 * times_of(graph, Phase.DATA)[0])
    assert PARTS.index(Part.REST) in parts_of(graph.tasks).tolist()


def test_gradients_of_embeddings_are_divided_less_than_other_backward_work(trained):
    start = baseline(trained)
    chosen, divisions = split_tasks(start, start.operators)
    names = [start.operators.tasks[int(one)].name for one in chosen]
    of = dict(zip(names, divisions, strict=True))
    assert of["EmbeddingBackward0"].part.value < of["ConvolutionBackward0"].part.value
    assert of["ConvolutionBackward0"].loops > of["aten::linear"].loops == 1


def test_a_fused_step_is_traffic_and_an_update_of_touched_rows_is_divided_less(trained):
    start = baseline(trained)
    large = replace(trained.memory, parameter_bytes=40_000_000, optimizer_bytes=80_000_000)
    whole = baseline(replace(trained, memory=large, peak_bytes=200_000_000))
    usual = dict(zip(*map(list, split_tasks(whole, whole.operators)), strict=True))
    at_once = dict(zip(*map(list, split_tasks(whole, whole.operators, fused=True)), strict=True))
    steps = select(whole.operators, phase=Phase.OPTIMIZER, kind=TaskKind.CPU).tolist()
    assert all(at_once[one].part.value < usual[one].part.value for one in steps)
    rows = dict(zip(*map(list, split_tasks(start, start.operators, sorting=np.array(steps))), strict=True))
    dense = dict(zip(*map(list, split_tasks(start, start.operators)), strict=True))
    assert all(rows[one].part.value < dense[one].part.value for one in steps)


def test_a_larger_batch_is_divided_better(trained):
    start = baseline(trained)
    usual = dict(zip(*map(list, split_tasks(start, start.operators)), strict=True))
    larger = dict(zip(*map(list, split_tasks(start, start.operators, 4.0)), strict=True))
    smaller = dict(zip(*map(list, split_tasks(start, start.operators, 0.25)), strict=True))
    for task, division in usual.items():
        phase = start.operators.tasks[int(task)].phase
        assert larger[task].part.value >= division.part.value
        assert larger[task].part.low == division.part.low
        if phase is not Phase.OPTIMIZER and "Embedding" not in start.operators.tasks[int(task)].name:
            assert larger[task].part.value > division.part.value
        if task in smaller:
            assert smaller[task] == division


def test_what_gains_more_than_its_threads_by_caches_does_not_in_a_larger_batch():
    assert _tried_of(Interval.exact(1.2), 4.0).value == 1.0
    assert _tried_of(Interval.exact(1.2), 0.5).value == 1.2


def test_more_loops_cost_more_joining():
    times = np.array([1000.0, 1000.0])
    half = Interval.exact(0.5)
    likely, least, most = factors((Division(half), Division(half, 10)), times, 2, 1)
    # Without the other thread its joining is gone as well.
    assert likely[1] < likely[0]
    assert (least <= likely).all()
    assert (likely <= most).all()


def test_small_convolutions_of_a_loader_only_lose_by_threads(trained):
    start = baseline(trained)
    chosen, divisions = split_in_loader(start, start.operators, 1)
    assert len(chosen) == 3
    likely, _, _ = factors(divisions, start.operators.durations[chosen], 2, 1)
    assert (likely < 1).all()
    assert (likely > 0.7).all()


def test_each_tensor_of_a_batch_is_handed_over_by_itself():
    costs = FetchingCosts()
    assert costs.taken_us(1e6) == costs.taken_us(1e6, 0) == costs.taken_us(1e6, 1)
    assert costs.taken_us(1e6, 8) - costs.taken_us(1e6) == pytest.approx(7 * costs.taking_us_per_tensor)
    assert costs.sent_us(0.0, 8) - costs.sent_us(0.0, 1) == pytest.approx(7 * costs.sending_us_per_tensor)


def dropping(profile, took, name="aten::dropout", phase=Phase.FORWARD):
    dropout = OperatorShape(name, ((1000, 100), ()), ("float32", "float64"))
    record = [
        Record(name, OPERATOR, phase, "main", index, 5000.0 * index, took, shape=0) for index in range(3)
    ]
    marks = tuple(IterationMark(index, 5000.0 * index, 5000.0 * index + took) for index in range(3))
    trace = Trace(marks, (), (), tuple(record), shapes=(dropout,))
    return baseline(replace(profile, trace=trace, loaders=(), trials=(), modules=()))


def test_generated_code_draws_each_random_number_from_its_place(profile):
    start = dropping(profile, 700.0)
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    first = graph.durations[0]
    assert isinstance(found.groups[0], Group)
    one, _ = fused(graph, found, LIKELY)
    assert one[0] == pytest.approx(100_000 * LIKELY.drawing_ns / 1e3)
    two, _ = fused(graph, found, LIKELY, threads=2)
    assert one[0] / 2 < two[0] < 0.6 * one[0]
    twice, _ = fused(graph, found, BEST, larger=2.0)
    assert twice[0] == pytest.approx(2 * 100_000 * BEST.drawing_ns / 1e3) or first < 200


def test_a_dropout_of_an_evaluation_draws_nothing(profile):
    start = dropping(profile, 700.0)
    graph = start.graph_of(Grain.OPERATORS)
    idle = graph.with_times(durations=np.full(len(graph), 5.0))
    after, _ = fused(idle, regions(start, graph), LIKELY)
    assert after[0] < 20.0


def test_generated_code_for_pooling_is_quick_forwards_and_slow_backwards(profile):
    for name, phase, factor in (
        ("aten::max_pool2d_with_indices", Phase.FORWARD, LIKELY.pooling.forward[PoolingKind.PLAIN]),
        ("MaxPool2DWithIndicesBackward0", Phase.BACKWARD, LIKELY.pooling.backward[PoolingKind.PLAIN]),
    ):
        start = dropping(profile, 700.0, name, phase)
        graph = start.graph_of(Grain.OPERATORS)
        after, _ = fused(graph, regions(start, graph), LIKELY)
        assert after[0] == pytest.approx(factor * graph.durations[0])
