"""Products of a split layer become two thinner ones, the update shrinks, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from skyline.errors import UsageError
from skyline.graph.task import PHASE
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.facts import Device, MemoryFact, ModuleFact, OptimizerFact
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
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.low_rank import WHATIF, split_layers
from skyline.whatif.cost.narrow_rate import HALF_RATE
from skyline.whatif.cost.thread_scaling import CALL_US

ROWS, INPUTS, OUTPUTS, RANK = 64, 256, 512, 16
WEIGHT, SMALL = INPUTS * OUTPUTS, 8 * 4
LEFT = RANK * (INPUTS + OUTPUTS)
PAGED_US_PER_MB = 10.0


def linear(path, inputs, outputs, count=0, **options):
    given = {"in_features": inputs, "out_features": outputs, "bias": True, **options}
    return ModuleFact(path, "Linear", True, count or inputs * outputs, True, given)


FC, HEAD = linear("Net.fc", INPUTS, OUTPUTS), linear("Net.head", 8, 4)
MODULES = (ModuleFact("Net", "Net", False, 0, True, {}), FC, HEAD)


def trace_of(rows=ROWS, iterations=3):
    """Each iteration: the layer 1 ms forward and 2 ms backward, a head 0.5 ms, an update of 4 ms that is traffic."""
    flops = 2 * rows * WEIGHT
    shapes = (
        OperatorShape("aten::linear", ((rows, INPUTS), (OUTPUTS, INPUTS)), ("float32",) * 2, flops=flops),
        OperatorShape("aten::linear", ((rows, 8), (4, 8)), ("float32",) * 2, flops=2 * rows * SMALL),
        OperatorShape("AddmmBackward0", ((rows, OUTPUTS),), ("float32",), flops=2 * flops),
        OperatorShape("aten::addcdiv_", ((OUTPUTS, INPUTS),) * 3, ("float32",) * 3),
    )
    work = [
        ("aten::linear", Phase.FORWARD, 1000, 1, 0),
        ("aten::linear", Phase.FORWARD, 500, 2, 1),
        ("AddmmBackward0", Phase.BACKWARD, 2000, 1, 2),
        ("aten::addcdiv_", Phase.OPTIMIZER, 4000, 0, 3),
    ]
    records, marks, clock = [], [], 0.0
    for iteration in range(iterations):
        begin = clock
        for name, phase, took, module, shape in work:
            place = {"module": module, "shape": shape}
            records.append(Record(name, RecordKind.OPERATOR, phase, "main", iteration, clock, took, **place))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), (), ("Net", "Net.fc", "Net.head"), tuple(records), shapes=shapes)


@pytest.fixture
def net(profile):
    """A model that fits into the caches."""
    numbers = WEIGHT + SMALL
    return replace(
        profile,
        trace=trace_of(),
        times=BareTimes((7.5,) * 9, (0.0,) * 9, (2.0,) * 9, (4.0,) * 9),
        modules=MODULES,
        memory=MemoryFact(4 * numbers, 4 * numbers, 8 * numbers, 0),
        peak_bytes=16 * numbers,
        optimizers=(OptimizerFact("Adam", 1, 4, numbers, 8 * numbers, {}),),
        loaders=(),
        trials=(),
        calls=(),
    )


def asked(profile, value=str(RANK)):
    start = baseline(profile)
    before = Scenario.of(start, Grain.OPERATORS)
    return start, before, WHATIF.transform(before, value, start)


def rate(side, half=HALF_RATE.value):
    return 1 + half / side


def split_us(now_us, half=HALF_RATE.value, rows=ROWS):
    """By hand: two products of operations over those of one, each with its narrowest side, and two calls."""
    then = INPUTS * RANK * rate(RANK, half) + RANK * OUTPUTS * rate(RANK, half)
    return 2 * CALL_US + (now_us - CALL_US) * then / (
        INPUTS * OUTPUTS * rate(min(rows, INPUTS, OUTPUTS), half)
    )


def test_both_passes_become_two_products_and_the_update_that_of_the_parameters_left(net):
    start, before, changed = asked(net)
    step = 4000 * LEFT / WEIGHT
    expected = split_us(1000) + 500 + split_us(2000) + step
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=1e-6)
    assert changed.below_ms > 0
    assert changed.above_ms > 0
    head = [index for index, module in enumerate(start.operators.tasks.module.tolist()) if module == 2]
    assert (changed.graph.durations[head] == before.graph.durations[head]).all()


def test_operators_on_the_weight_become_those_on_both_factors_between_the_sizes_seen(net):
    """An update of 4 ms is 3.9 ms of the large weight, which leaves the caches, and 4 µs of a bias."""
    small = OperatorShape("aten::addcdiv_", ((OUTPUTS,),) * 3, ("float32",) * 3)
    records = list(net.trace.records)
    for place, one in reversed(list(enumerate(records))):
        if one.phase is Phase.OPTIMIZER:
            bias = replace(one, duration_us=4.0, shape=4)
            records[place : place + 1] = [bias, replace(one, start_us=one.start_us + 4, duration_us=3900.0)]
    known = replace(net, trace=replace(net.trace, records=tuple(records), shapes=(*net.trace.shapes, small)))
    start, _, changed = asked(known)
    power = log(3900 / 4) / log(WEIGHT / OUTPUTS)
    each = [3900 * (RANK * side / WEIGHT) ** power for side in (INPUTS, OUTPUTS)]
    expected = split_us(1000) + 500 + split_us(2000) + sum(each) + 4
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=0.02)


def test_another_weight_of_the_same_size_is_updated_as_before(net):
    records = net.trace.records
    again = [replace(one, duration_us=1000.0) for one in records if one.phase is Phase.OPTIMIZER]
    start, before, changed = asked(replace(net, trace=replace(net.trace, records=(*records, *again))))
    step = [
        index
        for index, phase in enumerate(start.operators.tasks.phase.tolist())
        if phase == PHASE[Phase.OPTIMIZER]
    ]
    kept = changed.graph.durations[step].sum() / before.graph.durations[step].sum()
    assert kept == pytest.approx((1 + LEFT / WEIGHT) / 2)


def test_memory_for_a_large_result_costs_the_same_at_any_rank(net):
    rows = LARGE_BYTES // (4 * OUTPUTS) + 1
    traced = replace(net, trace=trace_of(rows))
    start, _, kept = asked(traced)
    paged_us = 4 * rows * OUTPUTS * 1e-6 * PAGED_US_PER_MB
    again, _, paged = asked(replace(traced, large_block_us_per_mb=PAGED_US_PER_MB))
    then = (split_us(1000, rows=rows) - 2 * CALL_US) / (1000 - CALL_US)
    assert 0 < paged_us < 500
    assert again.step_ms(paged.graph) - start.step_ms(kept.graph) == pytest.approx(
        (1 - then) * paged_us / 1e3, rel=1e-6
    )


def test_a_target_network_of_the_same_class_becomes_smaller_too(net):
    again = replace(net.trace, records=tuple(with_target(net.trace.records)))
    numbers = WEIGHT + SMALL
    held = replace(net.memory, parameter_bytes=2 * net.memory.parameter_bytes)
    times = BareTimes((8.5,) * 9, (0.0,) * 9, (2.0,) * 9, (4.0,) * 9)
    start, before, changed = asked(
        replace(net, trace=again, memory=held, times=times, peak_bytes=20 * numbers)
    )
    _, alone_before, alone = asked(net)
    saved_ms = start.step_ms(before.graph) - start.step_ms(changed.graph)
    alone_ms = start.step_ms(alone_before.graph) - start.step_ms(alone.graph)
    assert saved_ms - alone_ms == pytest.approx((1000 - split_us(1000)) / 1e3, rel=1e-6)
    assert before.memory.parameters - changed.memory.parameters == pytest.approx(8 * (WEIGHT - LEFT))


def with_target(records):
    """The same with a forward pass of the layer without gradients behind each of its forward passes."""
    later = 0.0
    for one in records:
        yield replace(one, start_us=one.start_us + later)
        if one.module == 1 and one.phase is Phase.FORWARD:
            yield replace(one, phase=Phase.OTHER, start_us=one.start_us + one.duration_us + later)
            later += one.duration_us


def test_only_layers_that_become_smaller_are_split(net):
    assert [one.module.path for one in split_layers(net, RANK)] == ["Net.fc"]
    assert {one.module.path for one in split_layers(net, 2)} == {"Net.fc", "Net.head"}
    assert split_layers(net, 171) == ()
    start, _, changed = asked(net, "171")
    assert "no linear layer smaller" in changed.reason
    with pytest.raises(UsageError):
        WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "much", start)


def test_memory_loses_the_parameters_and_keeps_what_is_between(net):
    _, before, changed = asked(net)
    less = WEIGHT - LEFT
    assert before.memory.parameters - changed.memory.parameters == pytest.approx(4 * less)
    assert before.memory.optimizer - changed.memory.optimizer == pytest.approx(8 * less)
    assert before.memory.levels.peak().gradients - changed.memory.levels.peak().gradients == pytest.approx(
        4 * less
    )
    assert (
        changed.memory.levels.peak().activations - before.memory.levels.peak().activations == 4 * ROWS * RANK
    )


def with_gradients_added(net, adding_us, call_us=2.0):
    """The network with the weight's gradient added to an earlier one; operators of ``call_us`` compute nothing."""
    shapes = (
        *net.trace.shapes,
        OperatorShape("torch::autograd::AccumulateGrad", ((OUTPUTS, INPUTS),), ("float32",)),
    )
    ends = [one for one in net.trace.records if one.phase is Phase.BACKWARD]
    adding = [
        replace(
            one, name="torch::autograd::AccumulateGrad", duration_us=adding_us, shape=len(shapes) - 1,
            start_us=one.start_us + one.duration_us,
        )
        for one in ends
    ]  # fmt: skip
    calls = [
        replace(
            one, name="TBackward0", duration_us=call_us, module=0, shape=-1, start_us=one.start_us + count
        )
        for one in adding
        for count in (1, 2, 3)
    ]
    return replace(
        net, trace=replace(net.trace, records=(*net.trace.records, *adding, *calls), shapes=shapes)
    )


def test_a_gradient_is_added_once_for_both_weights_in_proportion_to_their_size(net):
    adding_us = 400.0
    start, _, changed = asked(with_gradients_added(net, adding_us))
    tasks = start.operators.tasks
    adds = [task for task in range(len(start.operators)) if "Accumulate" in tasks.names[tasks.name[task]]]
    share = start.operators.durations[adds[0]] / adding_us
    expected = share * (2 * 2.0 + (adding_us - 2.0) * LEFT / WEIGHT)
    assert changed.graph.durations[adds[0]] == pytest.approx(expected, rel=1e-3)


LARGE = LARGE_BYTES // 4 + OUTPUTS
"""Numbers of a gradient that goes back to the system."""


def wide(net, *allocations):
    """The network with a layer of ``LARGE`` numbers in the place of its first one."""
    inputs = LARGE // OUTPUTS

    def larger(size):
        return {(OUTPUTS, INPUTS): (OUTPUTS, inputs), (ROWS, INPUTS): (ROWS, inputs)}.get(size, size)

    shapes = tuple(replace(one, inputs=tuple(map(larger, one.inputs))) for one in net.trace.shapes)
    numbers = inputs * OUTPUTS + SMALL
    return replace(
        net,
        modules=(MODULES[0], linear("Net.fc", inputs, OUTPUTS), HEAD),
        trace=replace(net.trace, shapes=shapes, allocations=tuple(allocations)),
        memory=MemoryFact(4 * numbers, 4 * numbers, 8 * numbers, 0),
        peak_bytes=24 * numbers,
        optimizers=(OptimizerFact("Adam", 1, 4, numbers, 8 * numbers, {}),),
        large_block_us_per_mb=PAGED_US_PER_MB,
    )


def test_a_large_gradient_no_longer_goes_back_to_the_system(net):
    inputs = LARGE // OUTPUTS
    size = 4 * inputs * OUTPUTS
    last = net.trace.iterations[-1]
    step = next(
        one for one in net.trace.records if one.phase is Phase.OPTIMIZER and one.iteration == last.index
    )
    python = replace(
        step, name="python", kind=RecordKind.PYTHON, duration_us=900.0, shape=-1,
        start_us=step.start_us + step.duration_us, line=0,
    )  # fmt: skip
    pauses = [replace(python, iteration=one.index, start_us=one.end_us) for one in net.trace.iterations]
    marks = tuple(replace(one, end_us=one.end_us + 900.0) for one in net.trace.iterations)
    paused = replace(net, trace=replace(net.trace, records=(*net.trace.records, *pauses), iterations=marks))
    freed = Allocation(python.start_us + 100.0, -size, 7, Phase.OPTIMIZER, 0)
    start, _, changed = asked(wide(paused, freed))
    again, _, kept = asked(wide(paused))
    saved_ms = again.step_ms(kept.graph) - start.step_ms(changed.graph)
    assert saved_ms == pytest.approx(PAGED_US_PER_MB * size / 1e9, rel=0.1)


def test_a_gradient_that_is_added_and_freed_shrinks_at_the_peak(net):
    inputs = LARGE // OUTPUTS
    size = 4 * inputs * OUTPUTS
    taken = Allocation(100.0, size, 7, Phase.BACKWARD)
    freed = Allocation(200.0, -size, 7, Phase.BACKWARD)
    start, before, changed = asked(wide(net, taken, freed))
    left = RANK * (inputs + OUTPUTS) / (inputs * OUTPUTS)
    saved = before.memory.levels.peak().activations - changed.memory.levels.peak().activations
    assert saved == pytest.approx((1 - left) * size, rel=0.05)
    # An activation of the same size stays.
    shown = Allocation(50.0, size, 8, Phase.FORWARD), Allocation(60.0, -size, 8, Phase.FORWARD)
    _, before, changed = asked(wide(net, *shown, taken, freed))
    assert changed.memory.levels.peak().activations >= before.memory.levels.peak().activations
    assert start.levels is not None


def test_values_are_ranks_around_a_quarter_of_the_largest_layer(net):
    found = WHATIF.detect(baseline(net))
    assert (found.applicable, found.default, found.values) == (True, "64", ("32", "64", "128"))


def test_the_gpu_is_asked_for_its_own_times(net):
    environment = replace(net.environment, device=Device("NVIDIA A100-SXM4-80GB", "cuda"))
    records = []
    large = trace_of(rows=16_384)
    for number, record in enumerate(large.records, 1):
        launch = replace(record, name="cudaLaunchKernel", kind=RecordKind.RUNTIME, duration_us=5.0, shape=-1)
        records += [replace(launch, correlation=number)]
        kernel = replace(record, kind=RecordKind.KERNEL, lane="stream 7", correlation=number)
        records += [replace(kernel, name="gemm" if "addcdiv" not in record.name else "update")]
    made = replace(net, environment=environment, trace=replace(large, records=tuple(records)))
    _, before, changed = asked(made, "64")
    shorter = changed.graph.durations < before.graph.durations
    names = {before.graph.tasks[index].name for index in range(len(before.graph)) if shorter[index]}
    assert names == {"gemm", "update"}
    assert changed.provenance.value == "modelled"
    unknown = replace(made, environment=replace(environment, device=Device("A GPU", "cuda")))
    assert "figures of the GPU are not known" in WHATIF.detect(baseline(unknown)).reason


LSTM = ModuleFact("Net.lstm", "LSTM", True, 100, True, {"input_size": 8, "hidden_size": 8})
SPLIT = (
    MODULES[0],
    ModuleFact("Net.fc", "Sequential", True, 0, True, {}),
    linear("Net.fc.0", INPUTS, RANK, bias=False),
    linear("Net.fc.1", RANK, OUTPUTS),
)
TABLE = ModuleFact(
    "Net.table", "Embedding", True, WEIGHT, True, {"num_embeddings": OUTPUTS, "embedding_dim": INPUTS}
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"modules": MODULES[:1]}, "trains no linear layer"),
        ({"modules": (*MODULES[:1], LSTM)}, "LSTM multiplies inside of one operator"),
        ({"modules": SPLIT}, "split already"),
        ({"modules": (MODULES[0], TABLE, replace(FC, parameter_count=0))}, "trains no linear layer"),
        ({"modules": (MODULES[0], linear("Net.fc", 1, 1))}, "too small to be split"),
        ({"modules": (MODULES[0], replace(FC, trainable=False))}, "trains no linear layer"),
        ({"modules": (MODULES[0], replace(FC, library=False))}, "trains no linear layer"),
        ({"modules": (MODULES[0], replace(FC, path="Net.other"))}, "no product of a linear layer"),
        ({"modules": (MODULES[0], HEAD)}, "less than 2 %"),
    ],
)
def test_where_it_does_not_apply(net, change, said):
    found = WHATIF.detect(baseline(replace(net, **change)))
    assert not found.applicable
    assert said in found.reason


def test_a_recurrent_layer_that_stays_is_an_assumption(net):
    _, _, changed = asked(replace(net, modules=(*MODULES, LSTM)))
    assert any("LSTM multiplies" in one for one in changed.assumptions)
