"""NumPy on the memory of a weight takes as much less as the weight becomes smaller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.cost.factored_layers import Factored
from skyline.whatif.cost.numpy_weights import with_numpy

LINEAR = ModuleFact("Net.fc", "Linear", True, 30_000, True, {"in_features": 300, "out_features": 100})
TABLE = ModuleFact(
    "Net.table", "Embedding", True, 30_000, True, {"num_embeddings": 300, "embedding_dim": 100}
)
LEFT = 10 * 400 / 30_000
WEIGHT, OTHER = (100, 300), (300, 100)


def subject_of(profile, *work):
    """Each iteration: operators with the size of their only input, and Python between them, in µs."""
    sizes = [WEIGHT, OTHER]
    shapes = tuple(
        OperatorShape(name, (size,), ("float32",))
        for name in ("aten::resolve_neg", "aten::to")
        for size in sizes
    )
    records, marks, clock = [], [], 0.0
    for index in range(2):
        begin = clock
        for name, phase, size, took in work:
            shape = -1 if size is None else 2 * (name == "aten::to") + sizes.index(size)
            kind = RecordKind.PYTHON if size is None else RecordKind.OPERATOR
            records.append(Record(name, kind, phase, "main", index, clock, took, shape=shape))
            clock += took
        marks.append(IterationMark(index, begin, clock))
    trace = Trace(tuple(marks), (), (), tuple(records), shapes=shapes)
    return baseline(replace(profile, trace=trace, modules=(LINEAR,), loaders=(), trials=()))


def left_of_python(subject, layer):
    """µs of Python in an iteration with the layer of rank 10, over those now, by the order of its stretches."""
    graph = subject.operators
    changed = with_numpy(subject, graph, (layer,))
    first = graph.tasks.iteration == graph.iterations[0]
    long = first & (graph.gaps > 0)
    return (changed.gaps[long] / graph.gaps[long]).tolist()


def test_python_behind_a_weight_that_was_lent_to_numpy(profile):
    subject = subject_of(
        profile,
        ("aten::resolve_neg", Phase.OTHER, WEIGHT, 1.0),
        ("python", Phase.OTHER, None, 9000.0),
        ("aten::to", Phase.OTHER, WEIGHT, 1.0),
        ("python", Phase.OTHER, None, 500.0),
    )
    assert left_of_python(subject, Factored(LINEAR, 300, 100, 10)) == pytest.approx([LEFT, 1.0])
    # The weight of an embedding has the other order.
    assert left_of_python(subject, Factored(TABLE, 300, 100, 10)) == [1.0, 1.0]


def test_other_tensors_and_the_passes_stay(profile):
    subject = subject_of(
        profile,
        ("aten::resolve_neg", Phase.OTHER, OTHER, 1.0),
        ("python", Phase.OTHER, None, 9000.0),
        ("aten::resolve_neg", Phase.FORWARD, WEIGHT, 1.0),
        ("python", Phase.FORWARD, None, 500.0),
        ("python", Phase.OTHER, None, 400.0),
    )
    layer = Factored(LINEAR, 300, 100, 10)
    assert set(left_of_python(subject, layer)) == {1.0}
    assert with_numpy(subject, subject.operators, (layer,)) is subject.operators
