"""Buckets are cut as PyTorch cuts them, and the exchange takes what the script was seen to wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.trace.facts import ParallelFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.all_reduce import MIB, Link, buckets_of, fitted, waiting_us
from skyline.whatif.catalogue.parallel.ddp_bucket import WHATIF as BUCKET
from skyline.whatif.catalogue.parallel.ddp_compression import WHATIF as COMPRESSION
from skyline.whatif.catalogue.parallel.gradient_as_bucket_view import WHATIF as VIEW
from skyline.whatif.catalogue.parallel.gradient_exchange import ALL_REDUCE, with_exchange
from skyline.whatif.catalogue.parallel.static_graph import WHATIF as STATIC
from skyline.whatif.catalogue.parallel.topk import WHATIF as TOPK
from skyline.whatif.catalogue.parallel.topk import SparseLink
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice

LAYERS = 8
LAYER = (1024, 1024)
LAYER_BYTES = 4 * MIB
WRAPPER = "DistributedDataParallel"
FACT = ParallelFact(WRAPPER, "gloo", 2, 25.0, False, False, False, gradient_bytes=LAYERS * LAYER_BYTES)


def replicas_trace(iterations=3, waited_us=8000.0, searched_us=0.0):
    """Forward 4 ms; eight layers backward at 2 ms each; then the wait, eight copies of 0.5 ms, and a step of 2 ms."""
    shapes = (OperatorShape("AccumulateGrad", (LAYER,), ("float32",)),)
    rows = [
        ("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, 3000.0, 1, -1),
        ("python", RecordKind.PYTHON, Phase.FORWARD, 1000.0, 1, -1),
        ("python", RecordKind.PYTHON, Phase.FORWARD, searched_us, 0, -1),
    ]
    for _ in range(LAYERS):
        rows.append(("AddmmBackward0", RecordKind.OPERATOR, Phase.BACKWARD, 1900.0, 1, -1))
        rows.append(("torch::autograd::AccumulateGrad", RecordKind.OPERATOR, Phase.BACKWARD, 100.0, 1, 0))
    rows.append(("python", RecordKind.PYTHON, Phase.BACKWARD, waited_us, -1, -1))
    copy = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
    rows += [(copy, RecordKind.OPERATOR, Phase.BACKWARD, 500.0, -1, 0)] * LAYERS
    rows.append(("aten::add_", RecordKind.OPERATOR, Phase.OPTIMIZER, 2000.0, -1, -1))
    records, marks, clock = [], [], 0.0
    for iteration in range(iterations):
        begin = clock
        for name, kind, phase, took, module, shape in rows:
            if took:
                records.append(
                    Record(name, kind, phase, "main", iteration, clock, took, module=module, shape=shape)
                )
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), (), (WRAPPER, f"{WRAPPER}.module"), tuple(records), shapes=shapes)


def replicas(profile, cores=8, threads=1, parallel=FACT, **trace):
    made = replicas_trace(**trace)
    step = made.iterations[0].end_us / 1e3
    backward = sum(r.duration_us for r in made.records if r.phase is Phase.BACKWARD) / 3e3
    return replace(
        profile,
        environment=replace(profile.environment, cpu_count=cores, intraop_threads=threads),
        trace=made,
        times=BareTimes((step,) * 9, (0.0,) * 9, (backward,) * 9, (2.0,) * 9),
        parallel=parallel,
        loaders=(),
        trials=(),
        recorded_ms=(step,) * 3,
    )


def predicted(whatif, start, value=""):
    scenario = Scenario.of(start, whatif.grain)
    changed = whatif.transform(scenario, value or whatif.detect(start).default, start)
    return start.step_ms(changed.graph), changed


def test_buckets_close_with_the_gradient_that_fills_them():
    sizes = [0.5 * MIB, 0.5 * MIB, 10 * MIB, 10 * MIB, 10 * MIB, 3 * MIB]
    # The first bucket of the default is small; a cap that is given counts for all.
    assert buckets_of(sizes, 25.0) == [(0, 1), (2, 4), (5, 5)]
    assert buckets_of(sizes, 20.0) == [(0, 3), (4, 5)]
    assert buckets_of(sizes, 100.0) == [(0, 5)]
    assert buckets_of([], 25.0) == []


def test_a_ring_sends_everything_twice_but_for_its_own_part():
    assert Link(2, 10.0, 1000.0).all_reduce_us(1e6) == pytest.approx(20 + 1000)
    assert Link(4, 10.0, 1000.0).all_reduce_us(1e6) == pytest.approx(60 + 1500)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("speed", [300.0, 2000.0])
def test_a_link_is_found_again_by_the_wait_that_it_makes(shared, speed):
    ready, sizes = [100.0, 9000.0, 20_000.0], [1.0 * MIB, 20.0 * MIB, 4.0 * MIB]
    link = Link(2, 60.0, speed)
    waited = waiting_us(link, ready, sizes, shared=shared)
    found = fitted(2, 60.0, waited, lambda one: waiting_us(one, ready, sizes, shared=shared))
    assert found.bytes_per_us == pytest.approx(speed, rel=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_the_buckets_there_are_take_the_time_there_was(profile, shared):
    start = baseline(replicas(profile))
    graph = with_exchange(start, start.operators, shared=shared)
    # Of 4 and 28 MiB: the first closes beyond 1 MiB, the other with the last gradient.
    assert len(select(graph, name=ALL_REDUCE)) == 3 * 2
    assert start.step_ms(graph) == pytest.approx(start.simulated_ms, rel=1e-6)


def test_with_cores_to_spare_smaller_buckets_hide_more(profile):
    start = baseline(replicas(profile))
    found = BUCKET.detect(start)
    assert found.values == ("1", "5", "10", "50")
    small, _ = predicted(BUCKET, start, "5")
    whole, _ = predicted(BUCKET, start, "50")
    assert small < start.simulated_ms < whole
    assert whole == pytest.approx(start.simulated_ms - 8 + whole_bucket_ms(start), rel=0.02)


def whole_bucket_ms(start):
    graph = with_exchange(start, start.operators, 50.0, shared=False)
    return float(graph.durations[select(graph, name=ALL_REDUCE)].mean()) / 1e3


def test_on_busy_cores_buckets_hardly_matter(profile):
    start = baseline(replicas(profile, cores=2))
    times = [predicted(BUCKET, start, value)[0] for value in ("1", "5", "10", "50")]
    assert max(times) / min(times) < 1.05
    assert times == pytest.approx([start.simulated_ms] * 4, rel=0.05)


def test_sixteen_bits_hurt_over_a_fast_loopback_and_help_over_a_slow_link(profile):
    quick = baseline(replicas(profile, cores=2, waited_us=3000.0))
    assert predicted(COMPRESSION, quick)[0] > quick.simulated_ms
    slow = baseline(replicas(profile, cores=8, waited_us=400_000.0))
    assert predicted(COMPRESSION, slow)[0] < 0.7 * slow.simulated_ms


def little(profile, **trace):
    """The same job with gradients of 2 kB in all."""
    made = replicas(profile, parallel=replace(FACT, gradient_bytes=LAYERS * 256), **trace)
    shapes = (OperatorShape("AccumulateGrad", ((8, 8),), ("float32",)),)
    return baseline(replace(made, trace=replace(made.trace, shapes=shapes)))


def test_gradients_that_fit_into_one_bucket_have_no_other(profile):
    assert "in the same buckets as now" in BUCKET.detect(little(profile)).reason


@pytest.mark.parametrize("shared", [True, False])
def test_waiting_for_a_late_rank_is_not_taken_for_a_slow_link(profile, shared):
    start = little(profile, waited_us=8000.0)
    graph = with_exchange(start, start.operators, shared=shared)
    assert start.step_ms(graph) == pytest.approx(start.simulated_ms, rel=1e-6)
    # Half of next to nothing: the rank is late all the same.
    assert predicted(COMPRESSION, start)[0] > 0.97 * start.simulated_ms


def test_number_formats_go_by_backend(profile):
    start = baseline(replicas(profile))
    assert COMPRESSION.detect(start).values == ("fp16",)
    with pytest.raises(UsageError, match="fp16"):
        COMPRESSION.transform(Scenario.of(start, Grain.OPERATORS), "bf16", start)
    nccl = baseline(replicas(profile, parallel=replace(FACT, backend="nccl")))
    assert COMPRESSION.detect(nccl).values == ("bf16", "fp16")


def test_views_save_the_copies_and_nothing_else(profile):
    start = baseline(replicas(profile))
    after, changed = predicted(VIEW, start)
    assert after == pytest.approx(start.simulated_ms - LAYERS * 0.5, rel=1e-6)
    assert changed.above_ms == pytest.approx(0.5 * LAYERS * 0.5, rel=1e-3)
    assert "33.6 MB less memory on top of" in changed.assumptions[0]


def test_a_static_graph_saves_the_search_where_there_is_one(profile):
    searching = replace(FACT, find_unused_parameters=True)
    start = baseline(replicas(profile, parallel=searching, searched_us=2000.0))
    after, changed = predicted(STATIC, start)
    assert after == pytest.approx(start.simulated_ms - 0.8 * 2.0, rel=1e-3)
    assert changed.below_ms > 0
    assert "nothing to save" in STATIC.detect(baseline(replicas(profile))).reason


@pytest.mark.parametrize("whatif", [BUCKET, COMPRESSION, STATIC])
def test_parameters_that_go_unused_have_no_gradient_to_arrive(profile, whatif):
    searching = replace(FACT, find_unused_parameters=True, gradient_bytes=LAYERS * LAYER_BYTES * 5 // 4)
    trace = replicas(profile, parallel=searching, searched_us=2000.0)
    assert whatif.detect(baseline(trace)).applicable
    told = replace(trace, parallel=replace(searching, find_unused_parameters=False))
    assert "does not show where" in whatif.detect(baseline(told)).reason


@pytest.mark.parametrize("whatif", [BUCKET, COMPRESSION, VIEW, STATIC])
@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (None, "does not use DistributedDataParallel"),
        (replace(FACT, name="FullyShardedDataParallel"), "shards the model"),
        (replace(FACT, world_size=1), "a single rank exchanges nothing"),
        (replace(FACT, gradient_bytes=10 * LAYERS * LAYER_BYTES), "does not show where"),
    ],
)
def test_why_not(profile, whatif, fact, said):
    found = whatif.detect(baseline(replicas(profile, parallel=fact)))
    assert not found.applicable
    assert said in found.reason


@pytest.mark.parametrize(
    ("whatif", "fact", "said"),
    [
        (COMPRESSION, replace(FACT, comm_hook="fp16_compress_hook"), "fp16_compress_hook"),
        (VIEW, replace(FACT, gradient_as_bucket_view=True), "already"),
        (STATIC, replace(FACT, static_graph=True), "already"),
        (STATIC, replace(FACT, find_unused_parameters=None), "not known"),
    ],
)
def test_what_is_on_already(profile, whatif, fact, said):
    assert said in whatif.detect(baseline(replicas(profile, parallel=fact))).reason


@pytest.mark.parametrize("value", ["0", "-1", "many", "inf"])
def test_a_bucket_has_a_size(profile, value):
    start = baseline(replicas(profile))
    with pytest.raises(UsageError, match="ddp_bucket="):
        BUCKET.transform(Scenario.of(start, Grain.OPERATORS), value, start)


def test_three_together_are_simulated_together(profile):
    start = baseline(replicas(profile, cores=2))
    names = ("ddp_bucket=5", "ddp_compression", "gradient_as_bucket_view")
    together = compose(start, [Choice.parse(name) for name in names])
    assert together.reason == ""
    graph = together.scenario.graph
    assert len(select(graph, name=ALL_REDUCE)) == 3 * 4
    first = compose(start, [Choice.parse("ddp_bucket=5")]).scenario.graph
    copies = LAYERS * 0.5
    both = compose(start, [Choice.parse(name) for name in names[:2]]).scenario.graph
    assert start.step_ms(graph) == pytest.approx(start.step_ms(both) - copies, rel=1e-6)
    assert start.step_ms(both) != pytest.approx(start.step_ms(first), rel=1e-3)


def test_top_k_brings_little_on_one_machine_and_much_over_a_slow_link(profile):
    quick = baseline(replicas(profile, cores=2, waited_us=3000.0))
    assert predicted(TOPK, quick)[0] > quick.simulated_ms
    slow = baseline(replicas(profile, cores=8, waited_us=400_000.0))
    after, changed = predicted(TOPK, slow)
    assert after < 0.5 * slow.simulated_ms
    assert "DGC" in changed.assumptions[-1]
    with pytest.raises(UsageError, match="does not suit the ranks"):
        TOPK.transform(Scenario.of(slow, Grain.OPERATORS), "0.01:8", slow)


def test_a_sparse_exchange_by_hand():
    # 1e6 bytes are 250,000 numbers; 2,500 with their indices are 20,000 bytes to each of three others.
    link = SparseLink(4, 10.0, 1000.0, ratio=0.01, selecting_us_per_byte=1e-4)
    assert link.all_reduce_us(1e6) == pytest.approx(100 + 3 * (10 + 20))
