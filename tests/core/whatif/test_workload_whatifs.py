"""Checkpointing, gradient accumulation, gradients set to None, and steps of all tensors at once, on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.errors import UsageError
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import ModuleFact
from skyline.trace.record import Phase, Record, RecordKind
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.blocks import open_blocks, repeated_blocks
from skyline.whatif.catalogue.memory.checkpointing import WHATIF as CHECKPOINTING
from skyline.whatif.catalogue.memory.checkpointing import parts_of
from skyline.whatif.catalogue.memory.grad_accumulation import WHATIF as ACCUMULATION
from skyline.whatif.catalogue.memory.zero_grad import WHATIF as ZERO_GRAD
from skyline.whatif.catalogue.models.fused_optimizer import WHATIF as FUSED
from skyline.whatif.cost.tried_iterations import TriedIterations
from skyline.whatif.question import Choice, Question
from skyline.whatif.subject import Grain


def ms(start, scenario):
    return start.step_ms(scenario.graph)


def fact(path, class_name, *, library=True, calls=1.0, checkpointed=False):
    return ModuleFact(path, class_name, library, 1, True, {}, calls, checkpointed=checkpointed)


@pytest.fixture
def blocks(profile):
    """The profile with its forward and backward work in two blocks; the second ends with a product."""
    facts = (
        fact("Net", "Net", library=False),
        fact("Net.blocks", "ModuleList"),
        *(fact(f"Net.blocks.{n}", "Block", library=False) for n in (0, 1)),
        *(fact(f"Net.blocks.{n}.fc", "Linear") for n in (0, 1)),
    )
    modules = ("Net", "Net.blocks.0", "Net.blocks.1", "Net.blocks.0.fc", "Net.blocks.1.fc")
    trace = profile.trace
    records = []
    for one in trace.records:
        if one.name == "aten::relu":
            # The first block: its relu keeps what it gives.
            records.append(replace(one, module=1))
        elif one.name == "aten::linear":
            records.append(replace(one, module=1 if False else 3))
        elif one.name == "AddmmBackward0":
            half = one.duration_us / 2
            records.append(replace(one, module=4, duration_us=half))
            records.append(replace(one, module=3, start_us=one.start_us + half, duration_us=half))
        else:
            records.append(replace(one, module=-1))
    return replace(profile, modules=facts, trace=replace(trace, modules=modules, records=tuple(records)))


def test_blocks_are_the_outermost_of_a_class(profile):
    inner = [fact(f"Net.blocks.{n}.heads.{m}", "Head", library=False) for n in (0, 1) for m in (0, 1)]
    leaves = [replace(one, path=f"{one.path}.fc", class_name="Linear") for one in inner]
    outer = [fact(f"Net.blocks.{n}", "Block", library=False) for n in (0, 1)]
    stages = [fact(f"Net.layer{n}", "Sequential") for n in (1, 2)]
    facts = (fact("Net", "Net", library=False), *outer, *inner, *leaves, *stages)
    made = replace(profile, modules=facts)
    (found,) = repeated_blocks(made, [one.path for one in facts])
    assert found.paths == ("Net.blocks.0", "Net.blocks.1")
    twice = tuple(replace(one, calls_per_iteration=2.0) for one in facts)
    assert repeated_blocks(replace(made, modules=twice), [one.path for one in facts]) == ()
    done = tuple(replace(one, checkpointed=one.path == "Net.blocks.0") for one in facts)
    assert open_blocks(replace(made, modules=done), [one.path for one in facts]) == ("Net.blocks.1",)


def test_without_facts_paths_that_count_are_blocks():
    paths = [
        "GPT_0.Block_0.Linear_0",
        "GPT_0.Block_1.Linear_1",
        "GPT_0.Sequential_0.Linear_7",
        "GPT_0.Sequential_1.x",
    ]
    assert [one.paths for one in repeated_blocks(None, paths)] == [("GPT_0.Block_0", "GPT_0.Block_1")]
    assert repeated_blocks(None, ["Net.layer1.0", "Net.fc"]) == ()


def test_the_forward_work_of_a_block_is_paid_twice(blocks):
    start = baseline(blocks)
    assert CHECKPOINTING.detect(start).applicable
    before = Scenario.of(start, Grain.OPERATORS)
    changed = CHECKPOINTING.transform(before, "1", start)
    # Linear, Python and relu of the first block, which took 3 of 12 ms: and Python's time for arranging it.
    forward = ms(start, before) * 3 / 12
    assert ms(start, changed) > ms(start, before) + 0.8 * forward
    assert changed.below_ms > 0
    assert "the first 1 of 2 blocks" in changed.assumptions[0]


def test_what_python_takes_for_it_is_the_same_in_any_batch(blocks):
    start = baseline(blocks)
    graph = start.operators
    # The step's operators do next to nothing, and the batch is no matter to them.
    step = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.CPU)
    paths = open_blocks(blocks, graph.structure.modules)
    quick = replace(start, graph=start.graph)
    quick.__dict__["operators"] = scale(graph, step, 0.001)
    smaller = scale(quick.operators, select(graph), 0.25, gaps=True)
    parts, of_smaller = parts_of(quick, quick.operators, paths), parts_of(quick, smaller, paths)
    assert sum(part.overhead_us for part in parts) > 0
    assert [part.overhead_us for part in of_smaller] == [part.overhead_us for part in parts]


@pytest.mark.parametrize(
    ("step_us", "python_us", "call_us"),
    [(4.0, None, 1.3 * 4.0), (1.0, None, 1.3 * 1.0), (1.0, 0.5, 1.5), (1.0, 9.0, 1.3 * 4.0)],
)
def test_python_counts_once_in_a_call(blocks, step_us, python_us, call_us):
    """``python_us``: iterations were tried, which tell Python's time for an operator of the optimizer's step."""
    start = baseline(blocks)
    graph = start.operators
    step = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.CPU)
    durations, gaps = np.full(len(graph), 4.0), np.zeros(len(graph))
    durations[step], gaps[step] = step_us, python_us or 0.0
    own = (2, "")
    tried = TriedIterations(2, {own: np.zeros(0)}, {}, {own: {}}, {}, np.zeros(0, np.int64))
    timed = replace(start, graph=start.graph, tried=None if python_us is None else tried)
    timed.__dict__["operators"] = graph.with_times(durations=durations, gaps=gaps)
    first, *_ = parts_of(timed, timed.operators, open_blocks(blocks, graph.structure.modules))
    # A block, a product that keeps two tensors, and an activation that keeps one.
    assert first.overhead_us == pytest.approx(call_us * (260 + 13 * 3))


@pytest.mark.parametrize("value", ["some", "-1", "2 apples", "GB"])
def test_a_value_that_is_none_is_an_error(blocks, value):
    start = baseline(blocks)
    with pytest.raises(UsageError, match="checkpointing="):
        CHECKPOINTING.transform(Scenario.of(start, Grain.OPERATORS), value, start)


def test_no_more_blocks_than_it_takes(blocks):
    start = baseline(blocks)
    scenario = Scenario.of(start, Grain.OPERATORS)
    room = CHECKPOINTING.transform(scenario, "10GB", start)
    assert ms(start, room) == pytest.approx(ms(start, scenario))
    short = CHECKPOINTING.transform(scenario, "1MB", start)
    assert "even with all 2 blocks" in short.reason
    assert CHECKPOINTING.title("2GB") == "activation checkpointing for a peak of 2GB"


def test_nothing_to_recompute_is_said(profile):
    assert "no repeated blocks" in CHECKPOINTING.detect(baseline(profile)).reason


def test_blocks_that_are_checkpointed_are_left(blocks):
    done = tuple(replace(one, checkpointed=True) for one in blocks.modules)
    assert "already" in CHECKPOINTING.detect(baseline(replace(blocks, modules=done))).reason


def test_parts_cost_what_the_curve_says_and_the_optimizer_is_paid_once(profile):
    start = baseline(profile)
    curve = start.curve
    changed = ACCUMULATION.transform(Scenario.of(start), "2", start)
    factors = curve.part_factors(8)
    tasks = start.outline.tasks
    before = start.outline.durations + start.outline.gaps
    rows = [
        n
        for n, one in enumerate(tasks)
        if one.iteration == 1 and one.phase in (Phase.FORWARD, Phase.BACKWARD)
    ]
    from skyline.graph.task import PARTS, parts_of

    parts = parts_of(tasks)

    extra = sum(before[n] * (2 * factors[PARTS[parts[n]]] - 1) for n in rows) / 1e3
    assert ms(start, changed) == pytest.approx(start.simulated_ms + extra, rel=0.05)
    optimizer = [one for one in changed.graph.tasks if one.phase is Phase.OPTIMIZER]
    assert len(optimizer) == len([one for one in tasks if one.phase is Phase.OPTIMIZER])
    assert changed.memory.peak_bytes.value < start.memory.peak_bytes.value
    assert changed.batch_size == 16


@pytest.mark.parametrize(("value", "error"), [("0", True), ("many", True), ("32", True), ("3", False)])
def test_parts_must_divide_the_batch(profile, value, error):
    start = baseline(profile)
    if error:
        with pytest.raises(UsageError, match="grad_accumulation="):
            ACCUMULATION.transform(Scenario.of(start), value, start)
    else:
        assert (
            "cannot be split into 3 equal parts"
            in ACCUMULATION.transform(Scenario.of(start), value, start).reason
        )


def test_no_curve_no_parts(profile):
    assert "no other batch size" in ACCUMULATION.detect(baseline(replace(profile, trials=()))).reason


def zeroed(profile):
    """The profile with two tensors filled with zeros before each forward pass, 0.1 ms each."""
    trace = profile.trace
    records = list(trace.records)
    for mark in trace.iterations:
        first = next(
            n for n, one in enumerate(records) if one.start_us >= mark.start_us and one.name == "aten::linear"
        )
        linear = records[first]
        shorter = replace(linear, start_us=linear.start_us + 200, duration_us=linear.duration_us - 200)
        zeros = [
            Record(
                "aten::zero_",
                RecordKind.OPERATOR,
                Phase.OPTIMIZER,
                "main",
                mark.index,
                linear.start_us + at,
                100.0,
            )
            for at in (0, 100)
        ]
        records[first : first + 1] = [*zeros, shorter]
    return replace(profile, trace=replace(trace, records=tuple(records)))


def test_no_zeros_are_written(profile):
    start = baseline(zeroed(profile))
    assert ZERO_GRAD.detect(start).applicable
    before = Scenario.of(start, Grain.OPERATORS)
    changed = ZERO_GRAD.transform(before, "", start)
    assert not any(one.name == "aten::zero_" for one in changed.graph.tasks)
    gone = ms(start, before) - ms(start, changed)
    assert 0 < gone < 0.5
    assert changed.below_ms > 0
    assert "no gradients are filled" in ZERO_GRAD.detect(baseline(profile)).reason


def test_all_tensors_at_once_saves_calls_and_no_traffic(profile):
    start = baseline(profile)
    assert FUSED.detect(start).values == ("", "foreach")
    fused = FUSED.transform(Scenario.of(start), "", start)
    at_once = FUSED.transform(Scenario.of(start), "foreach", start)
    assert ms(start, fused) < ms(start, at_once) < start.simulated_ms
    # Adagrad multiplies all gradients by its rate first, in memory of their own.
    adagrad = baseline(replace(profile, optimizers=(replace(profile.optimizers[0], name="Adagrad"),)))
    further = FUSED.transform(Scenario.of(adagrad), "foreach", adagrad)
    assert ms(adagrad, further) > ms(start, at_once)
    for name in ("RMSprop", "NAdam", "Rprop"):
        other = baseline(replace(profile, optimizers=(replace(profile.optimizers[0], name=name),)))
        assert FUSED.detect(other).default == "foreach"
    with pytest.raises(UsageError, match="fused_optimizer=twice"):
        FUSED.transform(Scenario.of(start), "twice", start)


def test_together_in_any_order(blocks):
    analysis = analyse(blocks)
    names = ["checkpointing", "grad_accumulation=2", "fused_optimizer", "batch_size=32"]
    answers = {
        estimate(analysis, Question(None, tuple(map(Choice.parse, order)))).iteration_ms.value
        for order in (names, names[::-1], [names[2], names[0], names[3], names[1]])
    }
    assert len(answers) == 1
