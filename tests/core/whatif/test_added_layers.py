"""Calls of a layer behind another one, on a model whose products are almost nothing but calls; solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import MemoryFact, ModuleFact, OptimizerFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.embedding_factorization import WHATIF as EMBEDDING
from skyline.whatif.catalogue.models.low_rank import WHATIF as LOW_RANK
from skyline.whatif.cost.narrow_rate import HALF_RATE

INPUTS, OUTPUTS, ROWS, RANK = 64, 32, 50, 4
WEIGHT, TABLE = INPUTS * OUTPUTS, ROWS * INPUTS
FLOPS = 2 * WEIGHT
LOOKUP, LINEAR, TANH, PYTHON = 2.0, 3.0, 1.0, 4.0
ENGINE, TANH_BACK, ADDMM_BACK, T_BACK, TABLE_BACK = 2.0, 1.0, 6.0, 1.5, 2.5
MODULES = ("Net", "Net.table", "Net.fc")
WORK = (
    ("aten::embedding", Phase.FORWARD, LOOKUP, 1, 0),
    ("python", Phase.FORWARD, PYTHON, 0, -1),
    ("aten::linear", Phase.FORWARD, LINEAR, 2, 1),
    ("aten::tanh", Phase.FORWARD, TANH, 0, -1),
    ("python", Phase.BACKWARD, ENGINE, 0, -1),
    ("TanhBackward0", Phase.BACKWARD, TANH_BACK, 0, -1),
    ("python", Phase.BACKWARD, ENGINE, 0, -1),
    ("AddmmBackward0", Phase.BACKWARD, ADDMM_BACK, 2, 2),
    ("python", Phase.BACKWARD, ENGINE, 0, -1),
    ("TBackward0", Phase.BACKWARD, T_BACK, 2, -1),
    ("python", Phase.BACKWARD, ENGINE, 0, -1),
    ("EmbeddingBackward0", Phase.BACKWARD, TABLE_BACK, 1, 3),
)
SHAPES = (
    OperatorShape("aten::embedding", ((ROWS, INPUTS), (1,)), ("float32", "int64")),
    OperatorShape("aten::linear", ((1, INPUTS), (OUTPUTS, INPUTS)), ("float32",) * 2, flops=FLOPS),
    OperatorShape("AddmmBackward0", ((1, OUTPUTS),), ("float32",), flops=2 * FLOPS),
    OperatorShape("EmbeddingBackward0", ((1, INPUTS),), ("float32",)),
)
FORWARD_GAP, BACKWARD_GAP = 0.0, ENGINE
"""The time behind the layer's operators in each pass: the activation follows its product at once."""
FORWARD_CALL, BACKWARD_CALL = LINEAR - FLOPS / 1e5, ADDMM_BACK - 2 * FLOPS / 1e5
"""A product less its arithmetic at 100 operations per ns, which no processor is assumed to exceed."""


@pytest.fixture
def net(profile):
    """A table and a layer, one token at a time; nothing is updated."""
    records, marks, clock = [], [], 0.0
    for iteration in range(3):
        begin = clock
        for name, phase, took, module, shape in WORK:
            kind = RecordKind.PYTHON if name == "python" else RecordKind.OPERATOR
            place = {"module": module, "shape": shape}
            records.append(Record(name, kind, phase, "main", iteration, clock, took, **place))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    given = {"in_features": INPUTS, "out_features": OUTPUTS, "bias": True}
    table = {"num_embeddings": ROWS, "embedding_dim": INPUTS, "sparse": False}
    took_ms = sum(one[2] for one in WORK) / 1e3
    back_ms = sum(one[2] for one in WORK if one[1] is Phase.BACKWARD) / 1e3
    return replace(
        profile,
        trace=Trace(tuple(marks), (), MODULES, tuple(records), shapes=SHAPES),
        times=BareTimes((took_ms,) * 9, (0.0,) * 9, (back_ms,) * 9, (0.0,) * 9),
        modules=(
            ModuleFact("Net", "Net", False, 0, True, {}),
            ModuleFact("Net.table", "Embedding", True, TABLE, True, table),
            ModuleFact("Net.fc", "Linear", True, WEIGHT, True, given),
        ),
        memory=MemoryFact(4 * (WEIGHT + TABLE), 4 * (WEIGHT + TABLE), 0, 0),
        optimizers=(OptimizerFact("SGD", 1, 2, WEIGHT + TABLE, 0, {}),),
        loaders=(),
        trials=(),
        calls=(),
    )


def longer_us(profile, whatif):
    """By how much an iteration of the recorded graph becomes longer."""
    start = baseline(profile)
    before = Scenario.of(start, Grain.OPERATORS)
    changed = whatif.transform(before, str(RANK), start)
    return 1e3 * (start.step_ms(changed.graph) - start.step_ms(before.graph))


def work(*products):
    """Operations, more of them for narrow products."""
    return sum(a * b * c * (1 + HALF_RATE.value / min(a, b, c)) for a, b, c in products)


def test_a_split_layer_brings_a_call_as_long_as_the_smallest_product_and_the_way_to_it(net):
    now = work((1, INPUTS, OUTPUTS))
    ratio = work((1, INPUTS, RANK), (1, RANK, OUTPUTS)) / now
    forward = FORWARD_CALL - (1 - ratio) * (LINEAR - FORWARD_CALL) + FORWARD_GAP
    backward = BACKWARD_CALL - (1 - ratio) * (ADDMM_BACK - BACKWARD_CALL) + T_BACK + 2 * BACKWARD_GAP
    assert longer_us(net, LOW_RANK) == pytest.approx(forward + backward, rel=1e-6)


def test_a_layer_behind_a_table_brings_the_calls_of_a_recorded_linear_layer(net):
    rate = 2 * work((1, INPUTS, OUTPUTS)) / (LINEAR - FORWARD_CALL)
    products = 2 * work((1, RANK, INPUTS), (1, INPUTS, RANK), (RANK, 1, INPUTS)) / rate
    # A row of 16 numbers is a line of a cache; half of a short lookup is its call.
    narrower = (1 - 16 / INPUTS) * 0.5 * (LOOKUP + TABLE_BACK)
    calls = FORWARD_CALL + FORWARD_GAP + BACKWARD_CALL + T_BACK + 2 * BACKWARD_GAP
    assert longer_us(net, EMBEDDING) == pytest.approx(calls + products - narrower, rel=1e-6)
