"""Which comparisons compiled code keeps, and where that takes time: on iterations whose every operator is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.compile import MASK_NS, MASK_PART, kept_masks
from skyline.whatif.catalogue.host.compile import WHATIF as COMPILE
from skyline.whatif.catalogue.host.fusion import regions
from skyline.whatif.cost.thread_scaling import gained
from skyline.whatif.subject import Grain

SIDE = 1000
TOOK_US = 8000.0
FORMS = ((SIDE, SIDE),)


def profile_of(profile, *names, features=("avx2",)):
    """Three iterations of a forward pass of these operators and a product's backward pass, 8 ms each."""
    shapes = tuple(OperatorShape(name, FORMS, ("float32",)) for name in dict.fromkeys(names))
    known = [shape.operator for shape in shapes]
    rows = [(name, Phase.FORWARD, known.index(name)) for name in names]
    rows.append(("AddmmBackward0", Phase.BACKWARD, -1))
    records, marks = [], []
    for index in range(3):
        for place, (name, phase, shape) in enumerate(rows):
            start_us = (index * len(rows) + place) * TOOK_US
            records.append(
                Record(
                    name, RecordKind.OPERATOR, phase, "main", index, start_us, TOOK_US, -1, -1, 0, shape=shape
                )
            )
        marks.append(IterationMark(index, index * len(rows) * TOOK_US, (index + 1) * len(rows) * TOOK_US))
    times = replace(
        profile.times,
        steps_ms=(len(rows) * TOOK_US / 1e3,) * 5,
        data_ms=(0.0,) * 5,
        backward_ms=(0.0,) * 5,
        optimizer_ms=(0.0,) * 5,
    )
    return replace(
        profile,
        trace=Trace(tuple(marks), (), ("Net",), tuple(records), shapes=shapes),
        times=times,
        trials=(),
        calls=(),
        modules=(ModuleFact("Net", "Net", False, 10, True, {}),),
        environment=replace(profile.environment, cpu_features=features, intraop_threads=2),
    )


def kept(profile, *names, features=("avx2",), larger=1.0, checkpointed=None):
    start = baseline(profile_of(profile, *names, features=features))
    graph = start.graph_of(Grain.OPERATORS)
    flags = None if checkpointed is None else np.full(len(graph), checkpointed)
    found = kept_masks(start, graph, regions(start, graph), larger, flags)
    by_name = np.array(graph.tasks.names)[graph.tasks.name]
    return {str(name): float(found[by_name == name].sum()) / 3 for name in set(by_name[found > 0])}


CONV, POOL, NORM = "aten::conv2d", "aten::max_pool2d", "aten::batch_norm"


@pytest.mark.parametrize(
    ("names", "those"),
    [
        ((CONV, "aten::relu", CONV), set()),
        ((CONV, "aten::relu", "aten::flatten", "aten::linear"), set()),
        ((CONV, "aten::relu", POOL, CONV), {"aten::relu"}),
        ((CONV, POOL, "aten::relu", CONV), set()),
        ((CONV, NORM, "aten::relu", POOL, CONV), set()),
        ((CONV, "aten::leaky_relu", CONV), {"aten::leaky_relu"}),
        ((CONV, NORM, "aten::leaky_relu_", CONV), set()),
        ((CONV, "aten::dropout", "aten::relu_", CONV), {"aten::dropout"}),
        ((CONV, "aten::relu", "aten::dropout", CONV), {"aten::relu", "aten::dropout"}),
        ((CONV, "aten::silu", "aten::tanh", CONV), set()),
        ((CONV, "aten::relu"), {"aten::relu"}),
    ],
)
def test_what_cannot_be_computed_again_from_what_is_kept_anyway(profile, names, those):
    found = kept(profile, *names)
    assert set(found) == those
    assert set(found.values()) <= {SIDE * SIDE}


def test_none_where_they_are_stored_at_once_or_nothing_is_known_of_the_processor(profile):
    names = (CONV, "aten::relu", POOL, CONV)
    assert kept(profile, *names, features=("avx2", "avx512f")) == {}
    assert kept(profile, *names, features=()) == {}


def test_checkpointed_blocks_keep_none_and_evaluated_dropouts_neither(profile):
    assert kept(profile, CONV, "aten::relu", POOL, CONV, checkpointed=True) == {}
    # Its 8 ms are less than a nanosecond for each number of a batch so many times as large.
    assert kept(profile, CONV, "aten::dropout", CONV, larger=10.0) == {}


def test_they_make_compiled_code_slower(profile):
    def compiled_ms(features):
        start = baseline(profile_of(profile, CONV, "aten::relu", POOL, CONV, features=features))
        scenario = COMPILE.transform(Scenario.of(start, Grain.OPERATORS), "default", start)
        return float(scenario.graph.durations.sum()) / 3e3

    more_ms = compiled_ms(("avx2",)) - compiled_ms(("avx2", "avx512f"))
    assert more_ms == pytest.approx(SIDE * SIDE * MASK_NS.value / 1e6 * gained(MASK_PART, 2), rel=1e-6)
