"""Compiling a model whose blocks are checkpointed: a block in which the graph would break is left as it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.graph.task import PHASE
from skyline.trace.facts import ModuleFact
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.compile import WHATIF as COMPILE
from skyline.whatif.catalogue.host.fusion import regions
from skyline.whatif.subject import Grain

SHAPES = tuple(
    OperatorShape(name, ((1000, 1000),) * inputs, ("float32",) * inputs)
    for name, inputs in (("aten::mul", 2), ("aten::tanh", 1), ("aten::item", 1), ("MulBackward0", 1))
)
NAMES = [shape.operator for shape in SHAPES]


def flow(profile, reading=("Net.steps.0.norm", "Net.steps.1.norm"), *, checkpointed=False):
    """Blocks of a norm and a layer, called in a loop of the model between two of its own products."""
    paths = ("Net", "Net.steps.0.norm", "Net.steps.0", "Net.steps.1.norm", "Net.steps.1", "Net.head")
    rows = [("aten::tanh", 2800, "Net")]
    for number in (0, 1):
        norm = f"Net.steps.{number}.norm"
        rows += [("aten::item", 5, norm)] if norm in reading else []
        rows += [("aten::mul", 1200, norm), ("aten::tanh", 2800, f"Net.steps.{number}")]
    rows.append(("aten::mul", 1200, "Net.head"))
    back = [("MulBackward0", 1200, path) for path in reversed(paths)]
    records, marks, clock = [], [], 0.0
    for index in range(3):
        begin = clock
        for phase, called in ((Phase.FORWARD, rows), (Phase.BACKWARD, back)):
            for name, took, path in called:
                module, shape = paths.index(path), NAMES.index(name)
                operator = Record(
                    name, RecordKind.OPERATOR, phase, "main", index, clock, took, -1, -1, module
                )
                way = Record(
                    "python", RecordKind.PYTHON, phase, "main", index, clock + took, 100, -1, -1, module
                )
                records += [replace(operator, shape=shape), way]
                clock += took + 100
        marks.append(IterationMark(index, begin, clock))
    times = replace(
        profile.times,
        steps_ms=(clock / 3e3,) * 5,
        data_ms=(0.0,) * 5,
        backward_ms=(0.0,) * 5,
        optimizer_ms=(0.0,) * 5,
    )
    trace = Trace(tuple(marks), (), paths, tuple(records), shapes=SHAPES)
    modules = tuple(
        ModuleFact(
            path, kind, kind == "ModuleList", 10, True, {}, checkpointed=checkpointed and ".steps." in path
        )
        for path, kind in (
            ("Net", "Net"),
            ("Net.steps", "ModuleList"),
            *((path, "Norm" if path.endswith("norm") else "Step") for path in paths if ".steps." in path),
            ("Net.head", "Head"),
        )
    )
    return replace(profile, trace=trace, times=times, modules=modules, trials=(), calls=())


def left_of(profile, *choices):
    """Paths of modules whose time stays as it is when the model is compiled together with these changes."""
    start = baseline(profile)
    graph = start.graph_of(Grain.OPERATORS)
    scenario = replace(Scenario.of(start, Grain.OPERATORS), choices=dict(choices))
    changed = COMPILE.transform(scenario, "default", start)
    forward = np.flatnonzero((graph.tasks.phase == PHASE[Phase.FORWARD]) & (graph.durations > 1000))
    same = changed.graph.durations[forward] == graph.durations[forward]
    return {
        name.removeprefix("Net.")
        for number, name in enumerate(graph.structure.modules)
        if same[graph.tasks.module[forward] == number].any()
    }


@pytest.mark.parametrize(
    ("reading", "value", "alone"),
    [
        ((), "all", set()),
        # The loop over the blocks, in which the graph cannot break, and every block that it checkpoints.
        (("Net.steps.1.norm",), "all", {"Net", "steps.0", "steps.0.norm", "steps.1", "steps.1.norm"}),
        (("Net.steps.0.norm", "Net.steps.1.norm"), "1", {"Net", "steps.0", "steps.0.norm"}),
        (("Net.steps.1.norm",), "1", set()),
    ],
)
def test_a_checkpointed_block_that_reads_a_number_is_not_compiled(profile, reading, value, alone):
    made = flow(profile, reading)
    assert left_of(made) == set()
    assert left_of(made, ("checkpointing", value)) == alone


def test_a_block_that_is_not_compiled_breaks_the_graph_once(profile):
    """The engine's way from one node of its backward pass to the next is no compiled graph."""
    made = flow(profile)
    records = tuple(
        replace(one, module=-1) if one.kind is RecordKind.PYTHON and one.phase is Phase.BACKWARD else one
        for one in made.trace.records
    )
    start = baseline(replace(made, trace=replace(made.trace, records=records)))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph, ("Net.steps.0", "Net.steps.1"))
    # One in each pass: the loop over the blocks belongs to them.
    assert found.breaks == 2
    assert len(found.entries) == 2 * start.steps


def test_blocks_that_the_script_checkpoints_are_left_as_well(profile):
    assert left_of(flow(profile, ())) == set()
    checkpointed = flow(profile, checkpointed=True)
    assert left_of(checkpointed) == {"Net", "steps.0", "steps.0.norm", "steps.1", "steps.1.norm"}
    assert left_of(flow(profile, (), checkpointed=True)) == set()
