"""Assignments by a mask: the graph that holds one is not compiled, and the others are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.fusion import regions
from skyline.whatif.subject import Grain

SIZE = (1000, 1000)
EXP = OperatorShape("aten::exp", (SIZE,), ("float32",))
LINEAR = OperatorShape("aten::linear", (SIZE, SIZE), ("float32",) * 2)
READ = OperatorShape("aten::index", (SIZE, SIZE), ("float32", "bool"))
WRITE = OperatorShape("aten::index_put_", (SIZE, (500,), SIZE), ("float32", "float32", "bool"))
FILL = OperatorShape("aten::index_put_", (SIZE, (), SIZE), ("float32", "float32", "bool"))
PLACE = OperatorShape("aten::index_put_", (SIZE, (500,), (500,)), ("float32", "float32", "int64"))
SHAPES = (EXP, LINEAR, READ, WRITE, FILL, PLACE)


def found_in(profile, forward, backward=()):
    """The regions of one pass over the model, whose operators are given with their lines."""
    records, clock = [], 0.0
    for phase, rows in ((Phase.FORWARD, forward), (Phase.BACKWARD, backward)):
        for shape, line in rows:
            name = shape.operator if phase is Phase.FORWARD else "ExpBackward0"
            record = Record(name, RecordKind.OPERATOR, phase, "main", 0, clock, 100, line, -1, 0)
            records.append(replace(record, shape=SHAPES.index(shape)))
            clock += 100
    lines = tuple(CodeLine("net.py", number) for number in range(1, 10))
    trace = Trace((IterationMark(0, 0.0, clock),), lines, ("Net",), tuple(records), shapes=SHAPES)
    module = ModuleFact("Net", "Net", False, 10, True, {})
    start = baseline(replace(profile, trace=trace, modules=(module,), trials=(), calls=()))
    graph = start.graph_of(Grain.OPERATORS)
    found = regions(start, graph)
    compiled = [(graph.tasks.names[graph.tasks.name[one]], int(graph.tasks.line[one])) for one in found.host]
    return compiled, found.breaks


BEFORE, AFTER = [(EXP, 0), (LINEAR, 1)], [(EXP, 7), (LINEAR, 8)]


def test_what_stands_between_a_break_and_the_assignment_is_not_compiled(profile):
    forward = [*BEFORE, (READ, 2), (EXP, 3), (WRITE, 4), *AFTER]
    backward = [(EXP, 7), (EXP, 3), (EXP, 0)]
    compiled, breaks = found_in(profile, forward, backward)
    own = [("aten::exp", 0), ("aten::linear", 1), ("aten::index", 2), ("aten::exp", 7), ("aten::linear", 8)]
    assert compiled == [*own, ("ExpBackward0", 7), ("ExpBackward0", 0)]
    assert breaks >= 2


def test_without_a_break_nothing_is_compiled(profile):
    compiled, _ = found_in(profile, [*BEFORE, (WRITE, 4), *AFTER])
    assert compiled == []


@pytest.mark.parametrize("assignment", [FILL, PLACE])
def test_one_number_by_a_mask_and_numbers_by_indices_are_compiled(profile, assignment):
    compiled, breaks = found_in(profile, [*BEFORE, (assignment, 4), *AFTER])
    assert len(compiled) == 5
    assert breaks == 0
