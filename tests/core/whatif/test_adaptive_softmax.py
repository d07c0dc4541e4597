"""A large output layer shrinks to a head and two clusters, in proportions that can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from skyline.errors import UsageError
from skyline.trace.facts import LabelFact, MemoryFact, ModuleFact, OptimizerFact, ParallelFact
from skyline.trace.record import (
    Allocation,
    BareTimes,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.whatif.base import Grain, Provenance, Scenario, Semantics
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models import adaptive_softmax
from skyline.whatif.catalogue.models.adaptive_softmax import WHATIF, cutoffs, default_head, output_layer
from skyline.whatif.cost import large_blocks

CLASSES, WIDTH, ROWS = 40_000, 128, 50
WEIGHT, LOGITS = (CLASSES, WIDTH), (ROWS, CLASSES)
HEAD = 400
BODY = (64, 64)


def linear(path="Net.head", outputs=CLASSES, inputs=WIDTH, own=True, **given):
    options: dict[str, Any] = {"in_features": inputs, "out_features": outputs}
    count = outputs * inputs if own else 0
    return replace(ModuleFact(path, "Linear", True, count, True, options), **given)


TABLE = ModuleFact(
    "Net.table", "Embedding", True, prod(WEIGHT), True, {"num_embeddings": CLASSES, "embedding_dim": WIDTH}
)
SGD = OptimizerFact("SGD", 1, 2, prod(WEIGHT) + prod(BODY), 0, {})
SHAPES = (
    OperatorShape("aten::linear", ((ROWS, WIDTH), WEIGHT), ("float32",) * 2),
    OperatorShape("aten::cross_entropy_loss", (LOGITS, (ROWS,)), ("float32", "int64")),
    OperatorShape("aten::_log_softmax_backward_data", (LOGITS, LOGITS), ("float32",) * 2),
    OperatorShape("aten::add_", (WEIGHT, WEIGHT), ("float32",) * 2),
    OperatorShape("aten::add_", (BODY, BODY), ("float32",) * 2),
    OperatorShape("aten::mm", ((CLASSES, ROWS), (ROWS, WIDTH)), ("float32",) * 2),
)
# Name, phase, µs, module, shape.
WORK = (
    ("aten::relu", Phase.FORWARD, 500, 1, -1),
    ("aten::linear", Phase.FORWARD, 4000, 2, 0),
    ("aten::cross_entropy_loss", Phase.FORWARD, 3000, -1, 1),
    ("LogSoftmaxBackward0", Phase.BACKWARD, 2000, -1, 2),
    ("AddmmBackward0", Phase.BACKWARD, 8000, 2, 5),
    ("ReluBackward0", Phase.BACKWARD, 600, 1, -1),
    ("aten::add_", Phase.OPTIMIZER, 6000, 3, 3),
    ("aten::add_", Phase.OPTIMIZER, 100, 3, 4),
)
MODULES = ("Net", "Net.body", "Net.head", "SGD.param_groups[0]")
LOGIT_BYTES = 4 * prod(LOGITS)


def trace_of(work=WORK, shapes=SHAPES, iterations=3):
    records, marks, clock = [], [], 0.0
    for number in range(iterations):
        begin = clock
        for name, phase, took, module, shape in work:
            records.append(
                Record(
                    name, RecordKind.OPERATOR, phase, "main", number, clock, took, module=module, shape=shape
                )
            )
            clock += took
        marks.append(IterationMark(number, begin, clock))
    last = marks[-1].start_us
    passing = (
        Allocation(last + 600, LOGIT_BYTES, 1, Phase.FORWARD),
        Allocation(last + 4600, LOGIT_BYTES, 2, Phase.FORWARD),
        Allocation(last + 7600, LOGIT_BYTES, 3, Phase.BACKWARD),
        Allocation(last + 9500, -LOGIT_BYTES, 1, Phase.BACKWARD),
        Allocation(last + 9500, -LOGIT_BYTES, 2, Phase.BACKWARD),
        Allocation(last + 17000, -LOGIT_BYTES, 3, Phase.BACKWARD),
    )
    return Trace(tuple(marks), (), MODULES, tuple(records), passing, shapes)


@pytest.fixture
def classifier(profile):
    whole = sum(took for _, _, took, _, _ in WORK) / 1e3
    times = BareTimes((whole,) * 9, (0.0,) * 9, (10.6,) * 9, (6.1,) * 9)
    body = linear("Net.body", 64, 64)
    held = 4 * (prod(WEIGHT) + prod(BODY))
    return replace(
        profile,
        trace=trace_of(),
        times=times,
        modules=(body, linear()),
        optimizers=(SGD,),
        loaders=(),
        trials=(),
        memory=MemoryFact(held, held, 0, 0),
        peak_bytes=0,
    )


def transformed(profile, value=str(HEAD)):
    start = baseline(profile)
    return start, WHATIF.transform(Scenario.of(start, Grain.OPERATORS), value, start)


def by_name(start, changed):
    """The share of each operator that is left, by its name; of two with one name the first."""
    before, after = start.operators.durations, changed.graph.durations
    found = {}
    for index, share in enumerate((after / before).tolist()):
        found.setdefault((start.operators.tasks[index].name, start.operators.tasks[index].phase), share)
    return {name: share for (name, _), share in found.items()}


LEFT = (402 * 128 + 32 * (128 + 3600) + 8 * (128 + 36_000)) / prod(WEIGHT)
"""The part of the weight that is left: a head, and clusters of width 32 and 8."""


def test_each_part_shrinks_by_the_work_that_is_left(classifier):
    start, changed = transformed(classifier)
    left = by_name(start, changed)
    ranks = np.arange(1, CLASSES + 1)
    share = np.cumsum(1 / ranks) / (1 / ranks).sum()
    first, second = cutoffs(CLASSES, HEAD)
    assert (first, second) == (400, 4000)
    near, far = share[second - 1] - share[first - 1], 1 - share[second - 1]

    def work(many, outputs, depth):
        return many * outputs * depth + 12 * (many * outputs + many * depth + outputs * depth)

    clusters = [(ROWS * near, second - first, 32), (ROWS * far, CLASSES - second, 8)]
    products = work(ROWS, first + 2, WIDTH)
    products += sum(work(many, width, WIDTH) + work(many, size, width) for many, size, width in clusters)
    products /= work(ROWS, CLASSES, WIDTH)
    elements = (ROWS * (first + 2) + sum(many * size for many, size, _ in clusters)) / prod(LOGITS)
    parameters = ((first + 2) * WIDTH + sum(width * (WIDTH + size) for _, size, width in clusters)) / prod(
        WEIGHT
    )
    assert left["aten::linear"] == pytest.approx(products)
    assert left["AddmmBackward0"] == pytest.approx(products)
    assert left["LogSoftmaxBackward0"] == pytest.approx(elements)
    assert left["aten::cross_entropy_loss"] == pytest.approx(elements + 2 * 400 / 3000)
    assert left["aten::add_"] == pytest.approx(parameters)
    assert left["aten::relu"] == left["ReluBackward0"] == 1
    assert changed.graph.durations[-1] == start.operators.durations[-1], "the update of the other layer"
    assert changed.provenance is Provenance.ASSUMED
    assert WHATIF.semantics is Semantics.MODEL


def test_the_backward_pass_of_the_likelihood_shrinks_with_the_logits(classifier):
    # It is given the gradient of the loss alone, a single number, and makes as many numbers as the logits.
    shapes = (*SHAPES, OperatorShape("aten::nll_loss_backward", ((),), ("float32",)))
    of_net = [(*row[:3], 0, row[4]) if "oss" in row[0] or "oftmax" in row[0] else row for row in WORK]
    work = (*of_net[:3], ("NllLossBackward0", Phase.BACKWARD, 2500, 0, 6), *of_net[3:])
    start, changed = transformed(replace(classifier, trace=trace_of(work, shapes)))
    left = by_name(start, changed)
    assert left["NllLossBackward0"] == left["LogSoftmaxBackward0"] < 0.5


def test_blocks_that_become_small_are_no_longer_provided_by_the_system(classifier, monkeypatch):
    for module in (large_blocks, adaptive_softmax):
        monkeypatch.setattr(module, "LARGE_BYTES", LOGIT_BYTES // 2)
    _, kept = transformed(classifier)
    _, returned = transformed(replace(classifier, large_block_us_per_mb=100.0))
    before, after = kept.graph.durations, returned.graph.durations
    names = [kept.graph.tasks[index].name for index in range(len(before))]
    saved = {name: 1 - now / then for name, then, now in zip(names, before, after, strict=True)}
    block_us = 100.0 * LOGIT_BYTES / 1e6
    assert saved["aten::linear"] == pytest.approx(block_us / 4000)
    assert saved["LogSoftmaxBackward0"] == pytest.approx(block_us / 2000)
    assert saved["aten::relu"] == saved["AddmmBackward0"] == saved["aten::add_"] == 0


def test_head_and_clusters_are_blocks_of_their_own(classifier, monkeypatch):
    """A quarter of the logits is left, but the largest of the three parts is smaller than a large block."""
    for module in (large_blocks, adaptive_softmax):
        monkeypatch.setattr(module, "LARGE_BYTES", int(0.24 * LOGIT_BYTES))
    seen = LabelFact(4000, (1, 400, 4000, 40_000), (0, 2000, 3000, 4000))
    labelled = replace(classifier, labels=seen)
    _, kept = transformed(labelled)
    _, returned = transformed(replace(labelled, large_block_us_per_mb=100.0))
    left = ROWS * (HEAD + 2 + 3600 / 4 + 36_000 / 4) / prod(LOGITS)
    assert 0.24 < left < 0.3
    saved = {
        kept.graph.tasks[index].name: 1 - now / then
        for index, (then, now) in enumerate(zip(kept.graph.durations, returned.graph.durations, strict=True))
    }
    assert saved["LogSoftmaxBackward0"] == pytest.approx(100.0 * LOGIT_BYTES / 1e6 / 2000)


def test_a_block_of_no_line_goes_back_in_the_pause_after_the_operator_before(classifier, monkeypatch):
    """The logits that a script hands on without a name are freed behind the loss."""
    for module in (large_blocks, adaptive_softmax):
        monkeypatch.setattr(module, "LARGE_BYTES", LOGIT_BYTES // 2)
    trace = classifier.trace
    last = trace.iterations[-1].start_us
    # The loss ends after 7500 us.
    taken = Allocation(last + 600, LOGIT_BYTES, 1, Phase.FORWARD)
    given_back = Allocation(last + 7510, -LOGIT_BYTES, 1, Phase.OTHER)
    profile = replace(
        classifier, trace=replace(trace, allocations=(taken, given_back)), large_block_us_per_mb=100.0
    )
    start = baseline(profile)
    names = [start.operators.tasks[index].name for index in range(len(start.operators.durations))]
    gaps = np.where(np.array(names) == "aten::cross_entropy_loss", 5000.0, 0.0)
    graph = large_blocks.without_returning(start, start.operators.with_times(gaps=gaps), lambda _: 1.0)
    block_us = 100.0 * LOGIT_BYTES / 1e6
    assert gaps.sum() - graph.gaps.sum() == pytest.approx(len(trace.iterations) * block_us)


def test_logits_that_are_replaced_by_later_ones_go_back_in_the_pause_of_python(classifier, monkeypatch):
    """The last iteration's logits have a name, and are freed as that name is bound again behind the loss."""
    for module in (large_blocks, adaptive_softmax):
        monkeypatch.setattr(module, "LARGE_BYTES", LOGIT_BYTES // 2)
    trace = classifier.trace
    records = []
    for record in trace.records:
        records.append(record)
        if record.name == "aten::cross_entropy_loss":
            start_us = record.start_us + record.duration_us
            records.append(
                Record("python", RecordKind.PYTHON, Phase.OTHER, "main", record.iteration, start_us, 300.0)
            )
    last = trace.iterations[-1].start_us
    given_back = Allocation(last + 7700, -LOGIT_BYTES, 1, Phase.OTHER)
    changed = replace(trace, records=tuple(records), allocations=(given_back,))
    start = baseline(replace(classifier, trace=changed, large_block_us_per_mb=10.0))
    names = np.array([start.operators.tasks[index].name for index in range(len(start.operators.durations))])
    gaps = np.select([names == "python", names == "aten::cross_entropy_loss"], [250.0, 20.0], 0.0)
    graph = large_blocks.without_returning(start, start.operators.with_times(gaps=gaps), lambda _: 1.0)
    saved = gaps - graph.gaps
    assert saved[names == "python"] == pytest.approx(min(250.0, 10.0 * LOGIT_BYTES / 1e6))
    assert not saved[names != "python"].any()


def test_gradients_that_were_returned_together_stay_once_that_of_the_layer_is_small(classifier):
    """Two gradients of 20.5 MB are twice the largest block: glibc gives back the end of its heap."""
    times = BareTimes((33.2,) * 9, (0.0,) * 9, (19.6,) * 9, (6.1,) * 9)
    work = (*WORK[:5], ("EmbeddingBackward0", Phase.BACKWARD, 9000, 1, -1), *WORK[5:])
    trace = trace_of(work)
    last = trace.iterations[-1].start_us
    gradients = (
        Allocation(last + 9600, WEIGHT_BYTES, 5, Phase.BACKWARD),
        Allocation(last + 17_600, WEIGHT_BYTES, 6, Phase.BACKWARD),
    )

    def left(allocations):
        changed = replace(
            classifier,
            trace=replace(trace, allocations=allocations),
            times=times,
            large_block_us_per_mb=100.0,
        )
        return by_name(*transformed(changed))["EmbeddingBackward0"]

    assert left(gradients) == pytest.approx(1 - 100.0 * WEIGHT_BYTES / 1e6 / 9000)
    assert left(gradients[1:]) == 1, "one alone is not enough for glibc to give it back"
    larger = Allocation(last + 600, 2 * WEIGHT_BYTES - 8_000_000, 7, Phase.FORWARD)
    assert left((larger, *gradients)) == 1, "a larger block was freed before"


def test_the_range_reaches_to_labels_without_any_order(classifier):
    start, changed = transformed(classifier)
    likely = start.step_ms(changed.graph)
    assert 0 < changed.below_ms < likely
    assert changed.above_ms > 0
    assert any("Zipf" in one and "99%" in one for one in changed.assumptions)


def test_the_logits_are_no_longer_the_peak(classifier):
    start, changed = transformed(classifier)
    before = Scenario.of(start, Grain.OPERATORS).memory
    assert changed.memory is not None
    assert before.parameters - changed.memory.parameters == pytest.approx(4 * prod(WEIGHT), rel=0.15)
    assert before.optimizer == changed.memory.optimizer
    # Two of the three are alive at a time; about a tenth of each stays.
    gone = before.levels.peak().activations - changed.memory.levels.peak().activations
    assert 0.5 * 2 * LOGIT_BYTES < gone <= 3 * LOGIT_BYTES
    assert changed.memory.peak_bytes.low < changed.memory.peak_bytes.value < changed.memory.peak_bytes.high


WEIGHT_BYTES = 4 * prod(WEIGHT)
IN_HEAD = LabelFact(4000, (1, 400, 4000, 40_000), (0, 4000, 4000, 4000))
"""No label is outside the head: 402 of 40,000 logits are left."""


@pytest.fixture
def with_adam(classifier):
    """The peak is in the update of the layer, which holds two results as large as its weight."""

    def made(**options):
        held = 4 * (prod(WEIGHT) + prod(BODY))
        trace = classifier.trace
        last = trace.iterations[-1].start_us
        step = tuple(
            Allocation(last + at, sign * WEIGHT_BYTES, address, Phase.OPTIMIZER)
            for at, sign, address in ((18_200, 1, 4), (18_300, 1, 5), (23_000, -1, 4), (23_100, -1, 5))
        )
        return replace(
            classifier,
            trace=replace(trace, allocations=trace.allocations + step),
            optimizers=(OptimizerFact("Adam", 1, 2, held // 4, 2 * held, options),),
            memory=MemoryFact(held, held, 2 * held, 0),
            labels=IN_HEAD,
        )

    return made


@pytest.mark.parametrize(
    ("options", "left"),
    [
        # The weight of the second cluster is the largest one to come.
        ({}, 36_000 * 8 / prod(WEIGHT)),
        ({"foreach": False}, 36_000 * 8 / prod(WEIGHT)),
        # The numbers of the head, of the clusters and of the other layer.
        (
            {"foreach": True},
            (402 * 128 + 32 * (128 + 3600) + 8 * (128 + 36_000) + prod(BODY)) / (prod(WEIGHT) + prod(BODY)),
        ),
    ],
)
def test_the_temporary_memory_of_a_step_shrinks_with_its_tensors(with_adam, options, left):
    start, changed = transformed(with_adam(**options))
    before, after = start.memory, changed.memory
    assert before.peak_bytes.value == 4 * before.parameters + 2 * WEIGHT_BYTES
    stays = after.parameters + after.levels.peak().gradients + after.optimizer
    assert stays == pytest.approx(4 * after.parameters)
    assert after.peak_bytes.value - stays == pytest.approx(left * 2 * WEIGHT_BYTES)


def test_the_peak_of_small_steps_is_that_of_the_logits(with_adam):
    """With labels by Zipf's law a fifth of the logits is left, which is more than what is left of the step."""
    start, changed = transformed(replace(with_adam(), labels=None))
    logits = by_name(start, changed)["LogSoftmaxBackward0"] * 3 * LOGIT_BYTES
    after = changed.memory
    assert logits > 36_000 * 8 / prod(WEIGHT) * 2 * WEIGHT_BYTES
    assert after.peak_bytes.value - 4 * after.parameters == pytest.approx(logits)


def test_logits_that_the_script_holds_until_the_next_iteration_shrink(classifier):
    """Those of the iteration before are freed once those of this one are there, which stay."""
    last = classifier.trace.iterations[-1].start_us
    passing = (
        Allocation(last + 600, LOGIT_BYTES, 1, Phase.FORWARD),
        Allocation(last + 4600, LOGIT_BYTES, 2, Phase.FORWARD),
        Allocation(last + 7400, -LOGIT_BYTES, 9, Phase.FORWARD),
        Allocation(last + 7600, LOGIT_BYTES, 3, Phase.BACKWARD),
        Allocation(last + 9500, -LOGIT_BYTES, 2, Phase.BACKWARD),
        Allocation(last + 17000, -LOGIT_BYTES, 3, Phase.BACKWARD),
    )
    start, changed = transformed(
        replace(
            classifier,
            trace=replace(classifier.trace, allocations=passing),
            memory=replace(classifier.memory, other_bytes=LOGIT_BYTES),
        )
    )
    left = by_name(start, changed)["LogSoftmaxBackward0"]
    before, after = start.memory, changed.memory
    weights = 2 * (before.parameters - after.parameters)
    less = before.peak_bytes.value - after.peak_bytes.value - weights
    assert less == pytest.approx(3 * (1 - left) * LOGIT_BYTES)


def test_an_update_of_all_tensors_at_once_loses_the_part_of_the_layer(classifier):
    each = OperatorShape("aten::_foreach_add_", (BODY, WEIGHT, BODY, WEIGHT), ("float32",) * 4)
    work = (*WORK[:6], ("aten::_foreach_add_", Phase.OPTIMIZER, 6100, 3, 6))
    start, changed = transformed(replace(classifier, trace=trace_of(work, (*SHAPES, each))))
    left = by_name(start, changed)["aten::_foreach_add_"]
    part = prod(WEIGHT) / (prod(WEIGHT) + prod(BODY))
    assert left == pytest.approx(1 - part * (1 - LEFT))


def test_an_embedding_of_the_same_size_keeps_its_update(classifier):
    start, changed = transformed(replace(classifier, modules=(TABLE, *classifier.modules)))
    assert by_name(start, changed)["aten::add_"] == pytest.approx(1 - (1 - LEFT) / 2)


def test_more_rows_are_more_of_everything_but_the_weights(classifier):
    start = baseline(classifier)
    twice = replace(Scenario.of(start, Grain.OPERATORS), batch_size=32)
    assert start.batch_size == 16
    more = WHATIF.transform(twice, str(HEAD), start)
    assert by_name(start, more)["LogSoftmaxBackward0"] == pytest.approx(
        by_name(start, transformed(classifier)[1])["LogSoftmaxBackward0"]
    )


def test_values_are_offered_and_checked(classifier):
    found = WHATIF.detect(baseline(classifier))
    assert found.applicable
    assert found.values == ("800", "2000", "4000")
    assert found.default == "2000" == str(default_head(CLASSES))
    start = baseline(classifier)
    for value in ("0", "many", "30000"):
        with pytest.raises(UsageError):
            WHATIF.transform(Scenario.of(start, Grain.OPERATORS), value, start)
    assert "2,000 classes" in WHATIF.title("2000")
    layer = output_layer(classifier)
    assert layer is not None
    assert layer.rows == ROWS


ADAPTIVE = ModuleFact("Net.head", "AdaptiveLogSoftmaxWithLoss", True, 10, True, {})
REPLICAS = ParallelFact("DistributedDataParallel", "gloo", 2, 25.0, False, False, False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"modules": (ADAPTIVE,)}, "already"),
        ({"modules": (linear(outputs=1000),)}, "no layer has 10,000 outputs"),
        ({"trace": trace_of(shapes=(SHAPES[0], *[SHAPES[4]] * 5))}, "no cross entropy"),
        ({"modules": (TABLE, linear(own=False))}, "shares the weight"),
        ({"modules": (linear(), replace(TABLE, parameter_count=0))}, "shares the weight"),
        ({"parallel": REPLICAS}, "replicated model"),
    ],
)
def test_where_it_does_not_apply(classifier, change, said):
    found = WHATIF.detect(baseline(replace(classifier, **change)))
    assert not found.applicable
    assert said in found.reason


def test_a_narrow_layer_has_no_clusters(classifier):
    narrow = tuple(
        replace(one, inputs=((ROWS, 32), (CLASSES, 32))) if at == 0 else one for at, one in enumerate(SHAPES)
    )
    changed = replace(classifier, trace=trace_of(shapes=narrow), modules=(linear(inputs=32),))
    assert "almost none" in WHATIF.detect(baseline(changed)).reason


def test_counted_labels_take_the_place_of_zipfs_law(classifier):
    # Half of the labels are below 400, and a quarter each in the two clusters.
    seen = LabelFact(4000, (1, 400, 4000, 40_000), (0, 2000, 3000, 4000))
    start, changed = transformed(replace(classifier, labels=seen))
    elements = (ROWS * (HEAD + 2) + ROWS * (3600 + 36_000) / 4) / prod(LOGITS)
    assert by_name(start, changed)["LogSoftmaxBackward0"] == pytest.approx(elements)
    assert changed.provenance is Provenance.MODELLED
    assert any("50% (47% to 53%) of 4,000 labels" in one for one in changed.assumptions)
    _, assumed = transformed(classifier)
    assert changed.above_ms < assumed.above_ms


@pytest.mark.parametrize(
    "seen", [LabelFact(20, (1, 400), (0, 20)), LabelFact(4000, (1, 50_000, 70_000), (0, 1, 4000))]
)
def test_few_labels_and_those_of_another_layer_do_not_count(classifier, seen):
    _, changed = transformed(replace(classifier, labels=seen))
    assert changed.provenance is Provenance.ASSUMED
