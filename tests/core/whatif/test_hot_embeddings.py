"""Rows of embeddings divided between GPU and host, in graphs solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import ModuleFact, OptimizerFact
from skyline.trace.profile import Prediction
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind
from skyline.trace.tensor_values import HotRows, TableAccess, TensorValues, hot_at
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.memory.hot_embeddings import HOST, WHATIF, offered_mb, usual_mb
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.host_bus import IN, OUT
from skyline.whatif.question import Choice

ROWS, WIDTH, MB = 1_000_000, 64, 1_000_000
TABLE_MB = 256
LOOKUP = OperatorShape("aten::embedding", ((ROWS, WIDTH), (100_000,)), ("float32", "int64"))
OPTIONS = {"num_embeddings": ROWS, "embedding_dim": WIDTH, "sparse": False}
TABLE = ModuleFact("Net.0", "Embedding", True, ROWS * WIDTH, True, OPTIONS)
ADAGRAD = OptimizerFact("Adagrad", 1, 2, ROWS * WIDTH, 4 * ROWS * WIDTH, {})
POINTS = (
    HotRows(16 * MB, 0.6, 20.0 * MB, 0.2, least_share=0.55, most_share=0.7),
    HotRows(64 * MB, 0.9, 5.12 * MB, 0.5, least_share=0.85, most_share=0.95),
    HotRows(TABLE_MB * MB, 1.0, 0.0, 1.0, least_share=1.0),
)
GATHER_US, COPY_US = 5.12 * MB / 8e3, 5.12 * MB / (0.8 * 32e3)
UPDATE_US = GATHER_US * 20 / 4
KERNELS = [
    ("indexSelect", Phase.FORWARD, 0, 1000.0),
    ("sgemm", Phase.FORWARD, 1, 4000.0),
    ("sgemm", Phase.BACKWARD, 1, 8000.0),
    ("embedding_backward", Phase.BACKWARD, 0, 2000.0),
    ("addcdiv", Phase.OPTIMIZER, 2, 3000.0),
]
GRADIENT = 2000.0 * (64 + 5.12 + 3 * 25.6) / (TABLE_MB + 3 * 25.6)
UPDATE = 3000.0 * 64 / TABLE_MB


def seen(points=POINTS, path="Net.0", **given):
    table = TableAccess(path, ROWS, 4 * WIDTH, 100_000.0, 40_000.0, points)
    return TensorValues(8, (table,), points, **given)


@pytest.fixture
def looked_up(layered):
    """18 ms on the GPU, 3 of them to look up and to make gradients of rows, and 3 to update the table."""

    def made(points=POINTS, **changes):
        given = {"values": seen(points), "modules": (TABLE,), "optimizers": (ADAGRAD,), **changes}
        return replace(layered(KERNELS, LOOKUP), **given)

    return made


def asked(profile, value="64"):
    subject = baseline(profile)
    return answer(subject, [Choice("hot_embeddings", value)]), compose(
        subject, [Choice("hot_embeddings", value)]
    ).scenario


def test_gathering_hides_behind_the_samples_that_need_no_other_row(looked_up):
    found, scenario = asked(looked_up())
    assert found.reason is None
    expected = 1000 + 4000 + 8000 + GRADIENT + UPDATE
    assert 18.0 / found.speedup == pytest.approx(expected / 1e3, rel=0.02)
    assert (found.provenance, found.semantics) == ("assumed", "convergence")
    graph = scenario.graph
    for name, us in ((IN, COPY_US), (OUT, COPY_US), (HOST, GATHER_US + UPDATE_US)):
        assert graph.durations[select(graph, name=name, iteration=1)].sum() == pytest.approx(us)
    assert "90 % (85 % to 95 %) of the lookups" in found.assumptions[0]
    assert "5.1 MB of other rows" in found.assumptions[0]


def test_without_samples_that_go_first_the_lookup_waits_for_the_host(looked_up):
    """The host updates and gathers rows after the backward pass, and the next forward pass waits for it."""
    apart = tuple(replace(one, whole_samples=0.0) for one in POINTS)
    found, _ = asked(looked_up(apart))
    host = COPY_US + UPDATE_US + GATHER_US + COPY_US
    assert host > UPDATE
    assert 18.0 / found.speedup == pytest.approx((host + 13_000 + GRADIENT) / 1e3, rel=0.02)


def test_the_gpu_loses_the_cold_rows_with_gradient_and_state(looked_up):
    subject = baseline(looked_up())
    owned = TABLE_MB * MB
    held = replace(
        subject, peak=replace(subject.peak, parameters=owned, gradients=owned, optimizer=owned, other=0)
    )
    after = compose(held, [Choice("hot_embeddings", "64")]).scenario.memory
    assert after.parameters == after.levels.peak().gradients == after.optimizer == 64 * MB
    assert after.peak_bytes.value == pytest.approx((3 * 64 + 5.12) * MB)


def test_between_the_counted_sizes_lines_are_taken(looked_up):
    found, _ = asked(looked_up(), "40")
    assert "75 % (70 % to 95 %) of the lookups" in found.assumptions[0]


def test_the_range_of_the_share_is_that_of_the_rows_that_cross_the_bus(looked_up):
    """With half as many misses at best and twice as many at worst, half and twice the bytes are copied."""

    def ends(**shares):
        points = tuple(replace(one, whole_samples=0.0, **shares) for one in POINTS[:2]) + POINTS[2:]
        found, _ = asked(looked_up(points))
        return found.iteration_ms

    narrow, wide = ends(least_share=0.9, most_share=0.9), ends(least_share=0.8, most_share=0.95)
    assert wide.value == pytest.approx(narrow.value)
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_the_ends_between_two_sizes_bound_a_share_that_grows_ever_more_slowly():
    points = (
        HotRows(10, 0.2, 0.0, least_share=0.1, most_share=0.3),
        HotRows(20, 0.4, 0.0, least_share=0.3, most_share=0.8),
    )
    found = hot_at(points, 15)
    assert (found.hit_share, found.least_share) == pytest.approx((0.3, 0.2))
    assert found.most_share == pytest.approx(0.45)
    assert hot_at(points, 5).most_share == 0.3


def test_all_rows_are_no_change(looked_up):
    found, scenario = asked(looked_up(), str(TABLE_MB))
    assert found.speedup == pytest.approx(1.0)
    assert not len(select(scenario.graph, name=HOST))


def test_the_usual_size_has_most_lookups_beyond_its_part_of_the_bytes():
    assert usual_mb(seen()) == 64
    assert offered_mb(seen()) == (16, 64)


def on_the_host(profile):
    """The lookup, its gradient and the update run on a CPU; its result is copied to the GPU and back."""
    update = OperatorShape("aten::addcdiv_", ((ROWS, WIDTH),) * 3, ("float32",) * 3)
    work = (
        ("aten::embedding", RecordKind.OPERATOR, Phase.FORWARD, "cpu:main", 5000.0, 0, 0),
        ("Memcpy HtoD", RecordKind.COPY, Phase.FORWARD, "gpu0:stream7", 800.0, -1, -1),
        ("sgemm", RecordKind.KERNEL, Phase.FORWARD, "gpu0:stream7", 2000.0, 1, -1),
        ("EmbeddingBackward0", RecordKind.OPERATOR, Phase.BACKWARD, "cpu:main", 4000.0, 0, 0),
        ("aten::addcdiv_", RecordKind.OPERATOR, Phase.OPTIMIZER, "cpu:main", 6000.0, -1, 1),
    )
    records, marks, now = [], [], 0.0
    for index in range(3):
        begin = now
        for name, kind, phase, lane, took, module, shape in work:
            records.append(Record(name, kind, phase, lane, index, now, took, module=module, shape=shape))
            now += took
        marks.append(IterationMark(index, begin, now))
    trace = replace(profile.trace, iterations=tuple(marks), records=tuple(records), shapes=(LOOKUP, update))
    return replace(profile, trace=trace, values=seen())


def test_hot_rows_of_a_table_on_the_host_leave_it(looked_up):
    subject = baseline(on_the_host(looked_up()))
    scenario = compose(subject, [Choice("hot_embeddings", "64")]).scenario
    before, after = subject.operators, scenario.graph

    def ratio(**criteria):
        return (
            after.durations[select(after, **criteria)].sum()
            / before.durations[select(before, **criteria)].sum()
        )

    assert ratio(name="aten::embedding") == pytest.approx(0.1)
    assert ratio(name="EmbeddingBackward0") == pytest.approx((192 + 3 * 2.56) / (256 + 3 * 25.6))
    assert ratio(name="aten::addcdiv_") == pytest.approx(192 / 256)
    assert ratio(name="Memcpy") == pytest.approx(0.1)
    assert ratio(kind=TaskKind.KERNEL) == pytest.approx(1.0)
    assert scenario.memory.parameters - subject.memory.parameters == 64 * MB


def reason(profile):
    found = detected_in(baseline(profile), WHATIF)
    assert not found.applicable
    return found.reason


def test_without_a_gpu_the_reason_says_what_one_would_keep(looked_up, profile):
    here = replace(looked_up(), environment=profile.environment)
    assert "hottest 64 MB of 256 MB would answer 90 % of the lookups" in reason(here)
    assert "5.1 MB of other rows would cross the bus each way" in reason(here)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"modules": (replace(TABLE, trainable=False),)}, "trains no embedding"),
        ({"values": None}, "not observed in this run"),
        ({"values": TensorValues(2)}, "less than 1 MiB"),
        ({"values": seen(problem="RuntimeError: no")}, "could not be read: RuntimeError"),
        ({"values": seen(())}, "too few lookups"),
        ({"values": seen(path="Net.9")}, "no lookup of these embeddings"),
    ],
)
def test_reasons(looked_up, changes, said):
    assert said in reason(looked_up(**changes))


def test_a_prediction_shows_no_lookups(looked_up):
    made = Prediction("H100", "roofline", "figures", baseline(looked_up()).iteration_ms, 0.0)
    assert "a prediction shows no lookups" in reason(
        looked_up(prediction=made, mode="predicted", values=None)
    )


def test_tables_of_both_sides_are_not_divided(looked_up):
    tables = (*seen().tables, *seen(path="Net.1").tables)
    profile = replace(on_the_host(looked_up()), values=TensorValues(8, tables, POINTS))
    assert "some on the GPU" in reason(profile)


def test_lookups_of_another_run_are_told_with_its_device(looked_up):
    found, _ = asked(looked_up(values=seen(seen_on="Test CPU")))
    assert "by 8 iterations of a run on Test CPU" in found.assumptions[0]


def test_several_tables_are_told_with_their_parts(looked_up):
    points = tuple(replace(one, table_bytes=(one.size_bytes * 0.75, one.size_bytes * 0.25)) for one in POINTS)
    tables = (*seen(points).tables, *seen(points, path="Net.1").tables)
    found, _ = asked(looked_up(values=TensorValues(8, tables, points)))
    assert "on the GPU: 48.0 MB of 256 MB of Net.0, 16.0 MB of 256 MB of Net.1" in found.assumptions
