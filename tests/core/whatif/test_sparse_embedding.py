"""Work on whole tables shrinks to the rows that are touched, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.trace.facts import CallFact, MemoryFact, ModuleFact, OptimizerFact, ParallelFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.sparse_embedding import WHATIF
from skyline.whatif.cost.embedding_rows import SPARSE_STEPS, cleared_shares, sparse_step_us, tables

ROWS, WIDTH, INDICES = 40_000, 64, 500
TABLE = ((ROWS, WIDTH), (INDICES,))
HEAD = (8, WIDTH)


def embedding(name="Net.table", rows=ROWS, **options):
    given = {"num_embeddings": rows, "embedding_dim": WIDTH, "sparse": False, **options}
    return ModuleFact(name, "Embedding", True, rows * WIDTH, True, given)


def adagrad(**options):
    return OptimizerFact("Adagrad", 1, 2, ROWS * WIDTH, 4 * ROWS * WIDTH, options)


LINEAR = ModuleFact("Net.head", "Linear", True, 512, True, {"in_features": WIDTH, "out_features": 8})


def trace_of(indices=INDICES, iterations=3, arriving=1):
    """Each iteration: lookup 1 ms, backward 2 ms of the table and 1 ms of the head, update 6 ms and 1 ms."""
    shapes = (
        OperatorShape("aten::embedding", ((ROWS, WIDTH), (indices,)), ("float32", "int64")),
        OperatorShape("AccumulateGrad", ((ROWS, WIDTH),), ("float32",)),
        OperatorShape("aten::addcdiv_", ((ROWS, WIDTH),) * 3, ("float32",) * 3),
        OperatorShape("aten::addcdiv_", (HEAD,) * 3, ("float32",) * 3),
    )
    rows = [
        ("aten::embedding", Phase.FORWARD, 1000, 1, 0),
        ("AddmmBackward0", Phase.BACKWARD, 1000, 2, -1),
        ("EmbeddingBackward0", Phase.BACKWARD, 2000, 1, -1),
        *[("torch::autograd::AccumulateGrad", Phase.BACKWARD, 0, 1, 1)] * arriving,
        ("aten::addcdiv_", Phase.OPTIMIZER, 6000, 3, 2),
        ("aten::addcdiv_", Phase.OPTIMIZER, 1000, 3, 3),
    ]
    records, marks, clock = [], [], 0.0
    for iteration in range(iterations):
        begin = clock
        for name, phase, took, module, shape in rows:
            records.append(
                Record(
                    name,
                    RecordKind.OPERATOR,
                    phase,
                    "main",
                    iteration,
                    clock,
                    took,
                    module=module,
                    shape=shape,
                )
            )
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    modules = ("Net", "Net.table", "Net.head", "Adagrad.param_groups[0]")
    return Trace(tuple(marks), (), modules, tuple(records), shapes=shapes)


@pytest.fixture
def recommender(profile):
    steps = (11.0,) * 9
    return replace(
        profile,
        trace=trace_of(),
        times=BareTimes(steps, (0.0,) * 9, (3.0,) * 9, (7.0,) * 9),
        modules=(embedding(), LINEAR),
        optimizers=(adagrad(),),
        loaders=(),
        trials=(),
    )


def reason(profile):
    found = WHATIF.detect(baseline(profile))
    assert not found.applicable
    return found.reason


def test_the_table_is_updated_where_it_was_touched_and_the_head_as_before(recommender):
    # A model that fits into the caches: whatever else a step leaves in them gains nothing.
    start = baseline(replace(recommender, memory=MemoryFact(1_000_000, 1_000_000, 1_000_000, 0)))
    assert WHATIF.detect(start).applicable
    scenario = Scenario.of(start, Grain.OPERATORS)
    changed = WHATIF.transform(scenario, "", start)
    before, after = scenario.graph.durations, changed.graph.durations
    touched = {start.operators.tasks[i].name for i in range(len(before)) if after[i] != before[i]}
    assert touched == {"EmbeddingBackward0", "aten::addcdiv_"}
    head = [i for i in range(len(before)) if start.operators.tasks[i].name == "AddmmBackward0"]
    assert (after[head] == before[head]).all()
    step = SPARSE_STEPS["Adagrad"]
    update = sparse_step_us(tables(recommender)[0], step, 6000).value
    gradient = 2000 * 2 * INDICES / (ROWS + 3 * INDICES)
    expected = (11_000 - 6000 - 2000 + update + gradient) / 1e3
    assert start.step_ms(changed.graph) == pytest.approx(expected, rel=1e-6)
    assert changed.below_ms > 0
    assert changed.above_ms > 0


def test_clearing_the_table_is_most_of_its_gradient_and_no_part_of_anything_else(recommender):
    graph = baseline(recommender).operators
    shares = cleared_shares(recommender, graph)
    names = [graph.tasks[index].name for index in range(len(graph))]
    for name, share in zip(names, shares.tolist(), strict=True):
        assert share == (pytest.approx(ROWS / (ROWS + 3 * INDICES)) if name == "EmbeddingBackward0" else 0.0)
    assert "EmbeddingBackward0" in names


def test_memory_loses_the_rows_that_are_not_touched(recommender):
    start = baseline(recommender)
    before = Scenario.of(start, Grain.OPERATORS)
    changed = WHATIF.transform(before, "", start)
    less = before.memory.levels.peak().gradients - changed.memory.levels.peak().gradients
    expected = 4 * WIDTH * (ROWS - INDICES) - 8 * INDICES
    assert less == pytest.approx(min(expected, before.memory.levels.peak().gradients))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"modules": (LINEAR,)}, "trains no embedding"),
        ({"modules": (embedding(sparse=True),)}, "sparse already"),
        ({"modules": (embedding(scale_grad_by_freq=True),)}, "no sparse gradients for these"),
        ({"optimizers": ()}, "no PyTorch optimizer"),
        (
            {"optimizers": (OptimizerFact("Adam", 1, 2, 10, 10, {}),)},
            "SparseAdam does, and trains differently",
        ),
        ({"optimizers": (OptimizerFact("RMSprop", 1, 2, 10, 10, {}),)}, "RMSprop takes no sparse gradients"),
        ({"optimizers": (OptimizerFact("SGD", 1, 2, 10, 40, {}),)}, "momentum"),
        ({"optimizers": (adagrad(fused=True),)}, "fused"),
        ({"optimizers": (adagrad(), adagrad())}, "several optimizers"),
        ({"calls": (CallFact("clip_grad_norm_", 1.0),)}, "clipped"),
        (
            {"parallel": ParallelFact("DistributedDataParallel", "gloo", 2, 25.0, False, False, False)},
            "replicas",
        ),
        ({"trace": trace_of(indices=30_000)}, "too many to gain"),
    ],
)
def test_where_it_is_of_no_use_or_impossible(recommender, change, said):
    assert said in reason(replace(recommender, **change))


def test_a_weight_that_the_output_layer_shares_has_a_dense_gradient(recommender):
    options = {"in_features": WIDTH, "out_features": ROWS}
    output = ModuleFact("Net.head", "Linear", True, 0, True, options)
    assert "output layer shares" in reason(replace(recommender, modules=(embedding(), output)))
    own = replace(output, parameter_count=ROWS * WIDTH)
    apart = replace(recommender, modules=(embedding(), own), trace=trace_of(arriving=2))
    assert WHATIF.detect(baseline(apart)).applicable


def test_a_step_over_many_tensors_is_shared_out_by_size(recommender):
    blind = tuple(
        replace(record, shape=-1) if record.phase is Phase.OPTIMIZER else record
        for record in recommender.trace.records
    )
    start = baseline(replace(recommender, trace=replace(recommender.trace, records=blind)))
    changed = WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "", start)
    # The table is all that the optimizer holds: next to nothing of its 7 ms is left.
    assert start.step_ms(changed.graph) < 3.0


def test_it_takes_no_value(recommender):
    start = baseline(recommender)
    with pytest.raises(UsageError, match="without a value"):
        WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "half", start)
