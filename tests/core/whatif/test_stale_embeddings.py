"""Rows that no longer change: what is left of gradients and updates, in graphs solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.trace.facts import ModuleFact, OptimizerFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.trace.tensor_values import HotRows, SteadyRows, TableAccess, TensorValues
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.stale_embeddings import WHATIF
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice

ROWS, WIDTH = 10_000, 32
STEADY = (SteadyRows(1e-4, 0.2, 0.3), SteadyRows(1e-3, 0.5, 0.6), SteadyRows(1e-2, 0.9, 0.95))
POINTS = (HotRows(4 * ROWS * WIDTH, 1.0, 0.0),)
OPTIONS = {"num_embeddings": ROWS, "embedding_dim": WIDTH, "sparse": False}
WORK = (
    ("aten::embedding", Phase.FORWARD, 1000.0, 0, 0),
    ("EmbeddingBackward0", Phase.BACKWARD, 4000.0, 0, 0),
    ("aten::addcdiv_", Phase.OPTIMIZER, 5000.0, -1, 1),
)
SHAPES = (
    OperatorShape("aten::embedding", ((ROWS, WIDTH), (2000,)), ("float32", "int64")),
    OperatorShape("aten::addcdiv_", ((ROWS, WIDTH),) * 3, ("float32",) * 3),
)


def seen(steady=STEADY):
    table = TableAccess("Net.table", ROWS, 4 * WIDTH, 2000.0, 1000.0, POINTS, steady)
    return TensorValues(8, (table,), POINTS, after=40)


@pytest.fixture
def script(profile):
    """10 ms: a lookup, its gradient, and the update of the table."""

    def made(*, sparse=False, values=None):
        records, marks, now = [], [], 0.0
        for index in range(3):
            begin = now
            for name, phase, took, module, shape in WORK:
                records.append(
                    Record(
                        name, RecordKind.OPERATOR, phase, "main", index, now, took, module=module, shape=shape
                    )
                )
                now += took
            marks.append(IterationMark(index, begin, now))
        module = ModuleFact("Net.table", "Embedding", True, ROWS * WIDTH, True, {**OPTIONS, "sparse": sparse})
        return replace(
            profile,
            trace=Trace(tuple(marks), (), ("Net.table",), tuple(records), shapes=SHAPES),
            times=BareTimes((10.0,) * 9, (0.0,) * 9, (4.0,) * 9, (5.0,) * 9),
            modules=(module,),
            optimizers=(OptimizerFact("SGD", 1, 1, ROWS * WIDTH, 0, {}),),
            loaders=(),
            trials=(),
            values=values or seen(),
        )

    return made


def left_of(profile, value):
    """The parts of the gradient's and the update's time that are left."""
    subject = baseline(profile)
    before, after = subject.operators, compose(subject, [Choice("stale_embeddings", value)]).scenario.graph
    return [
        after.durations[select(after, name=name)].sum() / before.durations[select(before, name=name)].sum()
        for name in ("aten::embedding", "EmbeddingBackward0", "aten::addcdiv_")
    ]


def test_sparse_gradients_and_updates_shrink_to_the_rows_that_move(script):
    assert left_of(script(sparse=True), "0.001") == pytest.approx([1.0, 1 - 0.6, 1 - 0.5])


def test_of_a_dense_gradient_the_cleared_table_stays_and_so_does_its_update(script):
    """A table of 10,000 rows is cleared, and 2000 looked-up ones are read, added to and written."""
    assert left_of(script(), "0.001") == pytest.approx([1.0, (1 + 0.6 * 0.4) / 1.6, 1.0])


def test_at_best_all_rows_have_settled_and_at_worst_nothing_is_gained(script):
    subject = baseline(script())
    found = answer(subject, [Choice("stale_embeddings", "0.001")])
    gradient = 4.0 * (1 + 0.6 * 0.4) / 1.6
    scenario = compose(subject, [Choice("stale_embeddings", "0.001")]).scenario
    # The table is cleared even so; no row is updated.
    assert scenario.below_ms == pytest.approx(gradient - 4.0 / 1.6 + 5.0, rel=1e-6)
    assert scenario.above_ms == pytest.approx(4.0 - gradient, rel=1e-6)
    assert (found.provenance, found.semantics) == ("assumed", "convergence")
    assert "50 % of the rows that an iteration looks up, and 60 % of the lookups" in found.assumptions[0]
    assert found.assumptions[0].endswith("by 8 iterations at this point of the training, after 40 others")
    assert "does not show how many rows settle later" in found.assumptions[1]
    assert "a bound" in found.assumptions[2]


def test_the_values_that_some_rows_fall_below_are_offered(script):
    found = detected_in(baseline(script()), WHATIF)
    assert (found.values, found.default) == (("0.0001", "0.001", "0.01"), "0.001")


def test_rows_that_still_change_are_no_case(script):
    moving = (SteadyRows(1e-3, 0.01, 0.01), SteadyRows(1e-2, 0.5, 0.5))
    found = detected_in(baseline(script(values=seen(moving))), WHATIF)
    assert "its rows still change at this point of the training: only 1.0 % of looked-up rows" in found.reason
    assert "does not show how many rows settle later" in found.reason
    assert "no step of an optimizer" in detected_in(baseline(script(values=seen(()))), WHATIF).reason


@pytest.mark.parametrize("value", ["none", "0", "2", "nan"])
def test_values_that_are_no_part_of_a_norm(script, value):
    with pytest.raises(UsageError, match="not possible"):
        compose(baseline(script()), [Choice("stale_embeddings", value)])
