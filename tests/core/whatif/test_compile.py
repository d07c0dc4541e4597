"""Operators that compiling joins and leaves, and its cost at the start: on iterations whose every number is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.errors import UsageError
from skyline.graph.task import PHASE
from skyline.report.basis import one_off_words
from skyline.trace.facts import Device, IterationFact, ModuleFact
from skyline.trace.record import CodeLine, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Provenance, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.compile import _AS_ELSEWHERE, _CALLING
from skyline.whatif.catalogue.host.compile import WHATIF as COMPILE
from skyline.whatif.catalogue.host.compiling import (
    BACKWARD_CALL,
    FORWARD_CALL_ON_CPU,
    PARAMETER,
    call_scale,
    graph_calls_us,
)
from skyline.whatif.catalogue.host.fusion import LIKELY, fused, regions
from skyline.whatif.catalogue.host.operator_class import CostClass, kernel_class, operator_class
from skyline.whatif.catalogue.host.traffic import bandwidth, external_bytes
from skyline.whatif.cost.operator_call import MOST_US, call_us, dispatch_us
from skyline.whatif.question import Choice, Question, break_even
from skyline.whatif.subject import Grain

SIDE = 1000
MEGABYTES = 4 * SIDE * SIDE  # bytes of one tensor


def call(operator, inputs=1):
    return OperatorShape(operator, ((SIDE, SIDE),) * inputs, ("float32",) * inputs)


MUL, TANH, LINEAR, ITEM = (
    call("aten::mul", 2),
    call("aten::tanh"),
    call("aten::linear", 2),
    call("aten::item"),
)
BACK = call("MulBackward0")
MASKED, PICKED = (
    OperatorShape("aten::index", ((SIDE, SIDE),) * 2, ("float32", indices)) for indices in ("bool", "int64")
)
SHAPES = (MUL, TANH, LINEAR, ITEM, BACK, call("aten::dropout"), MASKED, PICKED)
# Two multiplications at 12 MB in 1200 µs each show 10 kB per µs.
FORWARD = [("aten::linear", 2, 2000), ("aten::mul", 0, 1200), ("aten::tanh", 1, 2800), ("aten::mul", 0, 1200)]
BACKWARD = [("MulBackward0", 4, 1200), ("MulBackward0", 4, 1200), ("AddmmBackward0", 2, 3000)]


def profile_of(profile, forward=FORWARD, iterations=3, backward=BACKWARD):
    """Iterations of the given operators, each followed by 100 µs of Python, and 1 ms of loss outside of the model."""
    records, marks, clock = [], [], 0.0

    def write(name, kind, phase, duration, module, shape, index):
        nonlocal clock
        records.append(Record(name, kind, phase, "main", index, clock, duration, -1, -1, module, shape=shape))
        clock += duration

    for index in range(iterations):
        begin = clock
        for phase, rows in ((Phase.FORWARD, forward), (Phase.BACKWARD, backward)):
            for name, shape, took in rows:
                write(name, RecordKind.OPERATOR, phase, took, 0, shape, index)
                write("python", RecordKind.PYTHON, phase, 100, 0, -1, index)
            write("aten::mse_loss", RecordKind.OPERATOR, phase, 500, 1, 0, index)
        marks.append(IterationMark(index, begin, clock))
    step_ms = (clock / iterations) / 1e3
    times = replace(
        profile.times,
        steps_ms=(step_ms,) * 5,
        data_ms=(0.0,) * 5,
        backward_ms=(0.0,) * 5,
        optimizer_ms=(0.0,) * 5,
    )
    trace = Trace(tuple(marks), (), ("Net", "MSELoss"), tuple(records), shapes=SHAPES)
    modules = (ModuleFact("Net", "Net", False, 10, True, {}),)
    return replace(profile, trace=trace, times=times, modules=modules, trials=(), calls=())


def compiled_ms(start, value="default"):
    changed = COMPILE.transform(Scenario.of(start, Grain.OPERATORS), value, start)
    return start.step_ms(changed.graph), changed


def test_neighbours_are_joined_and_products_stay(profile):
    start = baseline(profile_of(profile))
    found = regions(start, start.graph_of(Grain.OPERATORS))
    names = start.graph_of(Grain.OPERATORS).tasks
    groups = [[names[index].name for index in group.tasks.tolist()] for group in found.groups[:2]]
    assert groups == [["aten::mul", "aten::tanh", "aten::mul"], ["MulBackward0", "MulBackward0"]]
    assert found.bytes_per_us == pytest.approx(10_000)
    assert found.kernels == 2


def test_a_group_takes_its_traffic_and_most_of_its_arithmetic(profile):
    start = baseline(profile_of(profile))
    now_ms, changed = compiled_ms(start)
    # Forward: one input read, one output written, 8 MB; tanh takes 2000 µs beyond its own 8 MB.
    plain = 2 * SIDE * SIDE * LIKELY.plain_ns / 1e3
    forward = 2000 + 800 + 0.75 * 2000 + plain + FORWARD_CALL_ON_CPU.value
    # Backward: gradient in and out and what was kept, 12 MB.
    backward = 1200 + plain + 3000 + BACKWARD_CALL.value
    assert now_ms == pytest.approx((forward + backward + 1000) / 1e3, rel=0.01)
    assert changed.below_ms > 0
    assert changed.above_ms > 0


def test_calls_of_compiled_code_cost_what_small_operators_of_the_backward_pass_do(profile):
    """Iterations are as long as they were with Python between the operators, whose times grow by a tenth."""
    scales = []
    for small_us in (0.2 * MOST_US, 50 * MOST_US):
        backward = [("AccumulateGrad", 4, small_us)] * 9 + [("AddmmBackward0", 2, 3000)]
        start = baseline(without_python(profile_of(profile, backward=backward)))
        scales.append(call_scale(start, start.graph_of(Grain.OPERATORS)))
    assert scales == [pytest.approx(0.2, rel=0.2), 1.0]


def test_the_call_of_a_graph_is_time_of_the_host_which_threads_do_not_divide(profile):
    """Were it part of the graph's first operator, it would take as much longer on one thread as that operator does."""
    start = baseline(profile_of(profile))
    graph = start.graph_of(Grain.OPERATORS)
    _, changed = compiled_ms(start)
    calls_us = start.steps * (FORWARD_CALL_ON_CPU.value + BACKWARD_CALL.value)
    assert float(changed.graph.gaps[regions(start, graph).host].sum()) == pytest.approx(calls_us)


def test_the_guards_of_a_graph_take_longer_with_each_trained_parameter(profile):
    """All other work of an iteration is the same."""
    start = baseline(profile_of(profile, backward=[*BACKWARD, *[("AccumulateGrad", 4, 2 * MOST_US)] * 30]))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    calls_us = graph_calls_us(start, graph, found)
    forward = np.isin(found.entries, found.heads)
    assert forward.sum() == start.steps
    assert calls_us[forward] == pytest.approx(FORWARD_CALL_ON_CPU.value + 30 * PARAMETER.value)
    assert calls_us[~forward] == pytest.approx(BACKWARD_CALL.value)


def test_the_way_from_operator_to_operator_is_part_of_a_call(profile):
    """The engine's time between two nodes of a backward pass belongs to no module, and is recorded by itself."""
    small, way_us = 0.1 * MOST_US, 0.3 * MOST_US
    start = baseline(between_nodes(profile_of(profile, backward=[("AccumulateGrad", 4, small)] * 9), way_us))
    graph = start.graph_of(Grain.OPERATORS)
    assert call_us(start, graph, Phase.BACKWARD) == pytest.approx(small + way_us, rel=0.01)
    assert dispatch_us(start, graph, Phase.BACKWARD) == pytest.approx(small, rel=0.01)


def test_a_compiled_backward_pass_has_no_engine_between_its_nodes(profile):
    backward = [("MulBackward0", 4, 1200), ("MulBackward0", 4, 1200)]
    plain, busy = (profile_of(profile, backward=backward * 20) for _ in range(2))
    plain, busy = (baseline(between_nodes(one, way_us)) for one, way_us in ((plain, 50), (busy, 500)))
    assert busy.iteration_ms.value - plain.iteration_ms.value == pytest.approx(40 * 0.45, rel=0.01)
    # The way behind the last node stays.
    assert compiled_ms(busy)[0] - compiled_ms(plain)[0] == pytest.approx(0.45, rel=0.01)


def between_nodes(profile, way_us):
    """With so much time behind each node of the backward pass, and none behind other operators."""
    records, clock = [], 0.0
    marks = {mark.index: [0.0, 0.0] for mark in profile.trace.iterations}
    for one in profile.trace.records:
        between = one.kind is RecordKind.PYTHON
        took = (way_us if one.phase is Phase.BACKWARD else 0.0) if between else one.duration_us
        marks[one.iteration] = [marks[one.iteration][0] or clock, clock + took]
        if took:
            place = {"module": -1, "line": 0} if between else {}
            records.append(replace(one, start_us=clock, duration_us=took, **place))
        clock += took
    iterations = tuple(IterationMark(index, *ends) for index, ends in marks.items())
    step_ms = clock / len(iterations) / 1e3
    times = replace(profile.times, steps_ms=(step_ms,) * 5)
    lines = (CodeLine("/project/train.py", 9),)
    trace = replace(profile.trace, records=tuple(records), iterations=iterations, lines=lines)
    return replace(profile, trace=trace, times=times)


def test_a_product_of_compiled_code_is_called_once(profile):
    """By the generated code, in place of the call that it had: a chain of products that compute nothing costs calls."""
    small, count = 0.2 * MOST_US, 40
    chain = [("aten::mm", 2, small)] * count
    start = baseline(
        between_nodes(profile_of(profile, chain, backward=[("MmBackward0", 2, small)] * count), 0)
    )
    now_ms = compiled_ms(start)[0]
    graphs_us = 0.2 * (FORWARD_CALL_ON_CPU.value + BACKWARD_CALL.value)
    assert now_ms - start.iteration_ms.value == pytest.approx(graphs_us / 1e3, rel=0.05)


def test_what_small_operators_tell_of_calls_makes_their_range_narrower(profile):
    """Without them the calls may be those of another machine."""
    assert _CALLING.low > 0.5 > _AS_ELSEWHERE.low
    assert _CALLING.high == _AS_ELSEWHERE.high
    start = baseline(profile_of(profile, backward=[("AccumulateGrad", 4, 1)] * 400))
    answer_ms, changed = compiled_ms(start)
    assert changed.below_ms < 0.5 * answer_ms


SMALL = OperatorShape("aten::mm", ((SIDE, 1), (1, 7)), ("float32",) * 2)
"""A product of other sizes than all other operators: it takes none of their results."""


@pytest.mark.parametrize(
    ("product", "between", "groups"),
    [
        # The second gate does not take what the first one left, so that both end in one kernel.
        (8, [], [4]),
        # It takes a tensor of that size, which may be that result.
        (2, [], [2, 2]),
        # It may take a part of the result, by a view of it.
        (8, [("aten::select", 1, 5)], [2, 2]),
        # Sorting lies between them.
        (8, [("aten::sort", 1, 500)], [2, 2]),
    ],
)
def test_parts_that_do_not_need_each_other_end_in_one_kernel(profile, monkeypatch, product, between, groups):
    monkeypatch.setitem(globals(), "SHAPES", (*SHAPES, SMALL))
    gate = [("aten::mul", 0, 1200), ("aten::tanh", 1, 2800)]
    forward = [FORWARD[0], *gate, *between, ("aten::mm", product, 300), *gate]
    backward = [*[("TanhBackward0", 4, 1200), ("MulBackward0", 4, 1200), ("MmBackward0", 2, 300)] * 2]
    made = profile_of(profile, forward, backward=backward)
    first, second = replace(made.modules[0], path="Net.first"), replace(made.modules[0], path="Net.second")
    places = {Phase.FORWARD: [1] * 3 + [2] * (len(forward) - 3), Phase.BACKWARD: [2, 2, 2, 1, 1, 1]}
    left = {(index, phase): list(places[phase]) for index in range(3) for phase in places}
    records = tuple(
        replace(one, module=left[one.iteration, one.phase].pop(0) + 1)
        if one.kind is RecordKind.OPERATOR and one.module == 0
        else one
        for one in made.trace.records
    )
    trace = replace(made.trace, modules=(*made.trace.modules, "Net.first", "Net.second"), records=records)
    start = baseline(replace(made, trace=trace, modules=(*made.modules, first, second)))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    backward_groups = [4] if groups == [4] else [2, 2]
    assert [len(group.tasks) for group in found.groups] == (groups + backward_groups) * start.steps


def without_python(profile):
    """Operators that follow each other at once."""
    records = tuple(one for one in profile.trace.records if one.kind is not RecordKind.PYTHON)
    return replace(profile, trace=replace(profile.trace, records=records))


def test_in_checkpointed_blocks_pytorch_draws_the_random_numbers(profile):
    start = baseline(profile_of(profile, [FORWARD[0], ("aten::dropout", 5, 7000)]))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    compiled, both = (
        fused(graph, found, LIKELY, checkpointed=flags)[0] for flags in (None, np.ones(len(graph), np.bool_))
    )
    drawing = found.groups[0].tasks[0]
    # A million numbers from generated code, and by an operator that draws and does not scale.
    assert compiled[drawing] == pytest.approx(1_000 * LIKELY.drawing_ns)
    assert both[drawing] == pytest.approx(0.45 * 7000)


def test_what_is_computed_again_is_part_of_the_backward_kernels(profile):
    again = [("aten::linear", 2, 2000), ("aten::tanh", 1, 2800), ("AddmmBackward0", 2, 3000), *BACKWARD]
    start = baseline(profile_of(profile, backward=again))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    flags = np.ones(len(graph), np.bool_)
    compiled, both = (fused(graph, found, LIKELY, checkpointed=one)[0] for one in (None, flags))
    names = np.array(graph.tasks.names)[graph.tasks.name]
    backward = graph.tasks.phase == PHASE[Phase.BACKWARD]
    repeated = backward & (names == "aten::tanh")
    assert both[repeated] == pytest.approx(0.2 * compiled[repeated])
    # Products are computed again like any others, and the rest stays what it was.
    assert both[~repeated] == pytest.approx(compiled[~repeated])


def test_recurrent_layers_are_not_compiled(profile):
    """PyTorch leaves them out of its graphs, and what follows them in the same module."""
    steps = [("aten::mm", 2, 50), ("aten::tanh", 1, 20)] * 10
    plain = profile_of(profile, [FORWARD[0], *steps, FORWARD[0]], backward=[BACKWARD[2]])
    records = tuple(
        replace(one, module=2) if one.name in ("aten::mm", "aten::tanh") else one
        for one in plain.trace.records
    )
    trace = replace(plain.trace, modules=(*plain.trace.modules, "Net.rnn"), records=records)
    modules = (*plain.modules, ModuleFact("Net.rnn", "RNN", True, 10, True, {}))
    recurrent = replace(plain, trace=trace, modules=modules)
    start = baseline(recurrent)
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    assert found.breaks == 1
    assert len(found.heads) == start.steps
    inside = np.flatnonzero(graph.tasks.module == 2)
    assert len(inside) == 20 * start.steps
    assert not np.isin(inside, found.host).any()
    alone = replace(recurrent, trace=replace(trace, records=tuple(one for one in records if one.module == 2)))
    assert "none of the model's operators" in COMPILE.detect(baseline(alone)).reason
    changed = compiled_ms(start)[1]
    assert changed.graph.durations[inside] == pytest.approx(graph.durations[inside])
    of_ones_own = replace(recurrent, modules=(*plain.modules, replace(modules[-1], library=False)))
    own = baseline(of_ones_own)
    assert regions(own, own.graph_of(Grain.OPERATORS)).breaks == 0


@pytest.mark.parametrize(("reads", "alone"), [(2, False), (40, True)])
def test_code_around_a_loop_that_reads_numbers_is_not_compiled(profile, reads, alone):
    """PyTorch runs such a module and those around it as they are; a module of the user that they call is compiled."""
    rows = [FORWARD[0], *[("aten::item", 3, 5)] * reads, *FORWARD[1:], ("aten::linear", 2, 2000)]
    plain = profile_of(profile, rows)
    records = tuple(
        replace(one, module=2)
        if one.name == "aten::tanh"
        else replace(one, line=0)
        if one.name == "aten::item"
        else one
        for one in plain.trace.records
    )
    lines = (CodeLine("/project/train.py", 7),)
    trace = replace(plain.trace, modules=(*plain.trace.modules, "Net.core"), records=records, lines=lines)
    modules = (*plain.modules, ModuleFact("Net.core", "Core", False, 10, True, {}))
    start = baseline(replace(plain, trace=trace, modules=modules))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    own = np.flatnonzero((graph.tasks.module == 0) & (graph.tasks.phase == PHASE[Phase.FORWARD]))
    assert np.isin(own, found.host).any() != alone
    assert np.isin(np.flatnonzero(graph.tasks.module == 2), found.host).all()
    if alone:
        assert len(found.heads) == start.steps
        assert found.breaks == 3


@pytest.mark.parametrize("breaking", [("aten::item", 3, 10), ("aten::index", 6, 10)])
def test_reading_a_number_or_picking_by_a_mask_breaks_the_graph(profile, breaking):
    broken = [*FORWARD[:2], breaking, *FORWARD[2:]]
    start = baseline(profile_of(profile, broken))
    found = regions(start, start.graph_of(Grain.OPERATORS))
    assert found.breaks == 1
    assert len(found.heads) == 2 * start.steps
    assert [len(group.tasks) for group in found.groups[:3]] == [1, 2, 2]
    assert any("breaks 1 times" in line for line in compiled_ms(start)[1].assumptions)


def test_picking_by_numbers_breaks_no_graph(profile):
    start = baseline(profile_of(profile, [*FORWARD[:2], ("aten::index", 7, 10), *FORWARD[2:]]))
    assert regions(start, start.graph_of(Grain.OPERATORS)).breaks == 0


def test_compiling_is_paid_once_and_paid_back(profile):
    answer = estimate(analyse(profile_of(profile)), Question(choices=(Choice("compile"),)))
    assert answer.applicable
    assert answer.one_off_s is not None
    gain_s = -answer.change_ms.value / 1e3
    assert answer.break_even_iterations == pytest.approx(answer.one_off_s.value / gain_s, abs=1)
    assert one_off_words(answer.one_off_s, answer.break_even_iterations).endswith("iterations")
    assert break_even(answer.one_off_s, replace(answer.change_ms, value=1.0)) is None
    assert break_even(answer.one_off_s, replace(answer.change_ms, value=-1e-14)) is None
    assert one_off_words(answer.one_off_s, None).endswith("never paid back")
    assert one_off_words(None, None) == ""


def test_together_with_another_change_the_cost_stays(profile):
    analysis = analyse(profile_of(profile))
    both = estimate(analysis, Question(choices=(Choice("compile"), Choice("inference_mode"))))
    alone = estimate(analysis, Question(choices=(Choice("compile"),)))
    assert both.one_off_s == alone.one_off_s


def test_where_it_makes_no_sense(profile):
    made = profile_of(profile)

    def reason(**changes):
        return COMPILE.detect(baseline(replace(made, **changes))).reason

    def environment(**changes):
        return reason(environment=replace(made.environment, **changes))

    assert "no torch.compile" in environment(torch="1.13.1")
    assert "does not compile under Python" in environment(torch="2.2.0", python="3.12.1")
    assert "does not compile on Windows" in environment(torch="2.3.0", platform="Windows-10")
    styled = IterationFact("one step", "optimizer step", 1, 1, 1, ("torch.compile",))
    assert reason(iteration=styled) == "it is compiled already"
    parts = (
        ModuleFact("Pair", "Pair", False, 0, False, {}, calls_per_iteration=0.0),
        ModuleFact("Pair.encoder", "Linear", True, 1, True, {}),
    )
    assert "never the model itself" in reason(modules=parts)
    by_framework = IterationFact("one step", "optimizer step", 1, 1, 1, ("PyTorch Lightning",))
    assert "never the model" not in reason(modules=parts, iteration=by_framework)
    assert "no operator of the model" in reason(modules=(ModuleFact("Other", "Other", False, 1, True, {}),))


def test_modes_are_for_gpus(profile):
    start = baseline(profile_of(profile))
    assert COMPILE.detect(start).values == ("default",)
    with pytest.raises(UsageError, match="not possible"):
        compiled_ms(start, "reduce-overhead")


def test_on_a_gpu_the_host_goes_and_the_modes_differ(gpu_profile):
    start = baseline(gpu_profile)
    assert COMPILE.transform(Scenario.of(start, COMPILE.grain), "", start).provenance is Provenance.MODELLED
    usual, reduced = compiled_ms(start)[0], compiled_ms(start, "reduce-overhead")[0]
    assert reduced <= usual
    device = replace(gpu_profile.environment, device=Device("GPU", "cuda"))
    values = COMPILE.detect(baseline(replace(gpu_profile, environment=device))).values
    assert values == ("default", "reduce-overhead", "max-autotune")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::relu", CostClass.POINTWISE),
        ("NativeLayerNormBackward0", CostClass.POINTWISE),
        ("aten::linear", CostClass.HEAVY),
        ("ConvolutionBackward0", CostClass.HEAVY),
        ("aten::permute", CostClass.VIEW),
        ("ViewBackward0", CostClass.VIEW),
        ("SliceBackward0", CostClass.POINTWISE),
        ("torch::autograd::AccumulateGrad", CostClass.OUTSIDE),
        ("aten::item", CostClass.READ),
        ("aten::sort", CostClass.KEPT),
        ("torchvision::nms", CostClass.FOREIGN),
    ],
)
def test_classes_of_operators(name, expected):
    assert operator_class(name) is expected


def test_classes_of_kernels():
    assert kernel_class("void at::native::vectorized_elementwise_kernel<4, …>") is CostClass.POINTWISE
    assert kernel_class("ampere_sgemm_128x64_nn") is CostClass.HEAVY
    assert kernel_class("some_custom_kernel") is CostClass.KEPT


def test_traffic_by_shapes():
    # One input from outside, the other one from the first call; the last output is written.
    assert external_bytes([TANH, MUL]) == 2 * MEGABYTES
    assert external_bytes([LINEAR]) == 2 * MEGABYTES
    assert external_bytes([BACK, BACK]) == 3 * MEGABYTES
    assert bandwidth([(MUL, 1200.0), (TANH, 1.0)]) == pytest.approx(10_000)
    assert bandwidth([(TANH, 1.0)]) is None
