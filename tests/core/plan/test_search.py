import json
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from msgspec.json import encode

from skyline.errors import Cancelled, UsageError
from skyline.interval import Interval
from skyline.plan.cluster import cluster_named, cluster_names
from skyline.plan.script_layers import traced_program
from skyline.plan.search import Request, search
from skyline.plan.strategy import Recompute, Sharding
from skyline.plan.transformer import transformer_named
from skyline.report.pages.plan import plan_page, row_page
from skyline.report.plan import Terms, choices, ranked
from skyline.trace.facts import BatchFact
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.units import format_bytes


@pytest.fixture(scope="module")
def eight_h100(counted):
    """The search for a model of 8 billion parameters on one node, which takes seconds."""
    return search(
        transformer_named("llama3-8b"), [cluster_named("dgx-h100").with_gpus(8)], counted, Request()
    )


def test_rows_use_every_gpu_once_fit_and_are_ranked(counted):
    cluster = cluster_named("dgx-h100").with_gpus(16)
    found = search(transformer_named("llama3-8b"), [cluster], counted, Request())
    assert found.considered > 1000
    assert len(found.rows) > 10
    assert all(row.strategy.ranks == 16 for row in found.rows)
    assert all(row.memory.peak_bytes < cluster.gpu.memory_bytes for row in found.rows)
    rates = [row.units_per_s.value for row in found.rows]
    assert rates == sorted(rates, reverse=True)
    assert "does not fit the GPU's memory" in found.refused


def test_strategies_beyond_the_limit_are_counted(counted):
    cluster, model = cluster_named("dgx-h100").with_gpus(8), transformer_named("gpt2")
    whole = search(model, [cluster], counted, Request(micro_batch=4))
    cut = search(model, [cluster], counted, Request(micro_batch=4), most=100)
    assert cut.considered == 100
    rest = cut.refused["not searched: the search ends after 100 strategies"]
    assert cut.considered + rest == whole.considered


def test_global_batch_is_the_same_in_every_row(counted):
    cluster = cluster_named("dgx-h100").with_gpus(8)
    found = search(transformer_named("gpt2"), [cluster], counted, Request(global_batch=64))
    assert {row.strategy.samples_per_step for row in found.rows} == {64}
    with pytest.raises(UsageError, match="global batch"):
        search(transformer_named("gpt2"), [cluster], counted, Request(global_batch=100_003))


def test_a_model_that_is_too_large_names_the_least_memory_and_the_next_step(counted):
    cluster, model = cluster_named("two-desktops"), transformer_named("llama3-70b")
    found = search(model, [cluster], counted, Request())
    assert not found.rows
    report = ranked(model, cluster, found, counted, Terms(), 5).report
    least = found.too_large[0]
    assert [one.peak_bytes for one in found.too_large] == sorted(one.peak_bytes for one in found.too_large)
    plain = report.too_large[0]
    assert "x" not in plain.label.partition(",")[0]
    assert plain.memory_bytes > plain.usable_bytes == pytest.approx(0.95 * cluster.gpu.memory_bytes)
    assert least.strategy.label() in report.advice
    assert "Take more GPUs" in report.advice


def test_layouts_with_a_strategy_that_fits_are_not_too_large(eight_h100):
    found = eight_h100
    shown = {
        (row.strategy.sharding, row.strategy.tensor, row.strategy.pipeline)
        for row in found.rows
        if not row.strategy.offload and row.strategy.context == 1
    }
    assert (Sharding.ZERO_3, 1, 1) in shown
    large = [one for one in found.too_large if not one.strategy.offload and one.strategy.context == 1]
    assert not shown & {(one.strategy.sharding, one.strategy.tensor, one.strategy.pipeline) for one in large}
    # An 8 B model in mixed precision needs 128 GB for its states without sharding.
    assert (Sharding.NONE, 1, 1) in {
        (one.strategy.sharding, one.strategy.tensor, one.strategy.pipeline) for one in large
    }


def test_a_search_can_be_cancelled(counted):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        search(transformer_named("gpt2"), [cluster_named("dgx-h100")], counted, Request(), cancel=cancel)


def test_the_reason_of_a_row_adds_up(counted, eight_h100):
    cluster, model = cluster_named("dgx-h100").with_gpus(8), transformer_named("llama3-8b")
    report = ranked(model, cluster, eight_h100, counted, Terms(), 20).report
    fastest, *others = report.rows
    assert fastest.why == ""
    for row in others:
        slower, *parts = (
            int(number) for number in re.findall(r"([+-]?\d+) %", row.why.replace("the fastest", ""))
        )
        assert slower == pytest.approx((row.slower_than_best - 1) * 100, abs=0.51)
        assert sum(parts) == pytest.approx(slower, abs=2.5)


def test_each_size_has_a_row(counted):
    cluster, model = cluster_named("dgx-h100"), transformer_named("gpt2")
    sizes = [cluster.with_gpus(size) for size in (8, 16, 32)]
    found = search(model, sizes, counted, Request(micro_batch=4))
    rows = ranked(model, cluster, found, counted, Terms(), 6).report.rows
    assert len(rows) == 6
    assert {row.gpus for row in rows} == {8, 16, 32}
    rates = [row.units_per_s.value for row in rows]
    assert rates == sorted(rates, reverse=True)
    assert [row.gpus for row in ranked(model, cluster, found, counted, Terms(), 1).report.rows] == [32]


def test_choices_have_the_clusters_beside_the_script(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "lab.toml").write_text(
        'gpu = "A100"\nnodes = 2\ngpus_per_node = 4\n'
        "[inside]\ngb_s = 300\nlatency_us = 2\n[between]\ngb_s = 25\nlatency_us = 5\n"
    )
    found = choices(tmp_path)
    assert (found.clusters[0].name, found.clusters[0].gpus_per_node) == ("lab.toml", 4)
    assert len(found.clusters) == 1 + len(cluster_names())
    assert "llama3-8b" in found.models


def test_budget_and_deadline_object_and_cost_ranks(counted):
    model, cluster = transformer_named("gpt2"), cluster_named("p4d.24xlarge")
    sizes = [cluster.with_gpus(8), cluster.with_gpus(32)]
    found = search(model, sizes, counted, Request(micro_batch=4))
    fast = found.rows[0].units_per_s.value
    units = fast * 3600
    made = ranked(model, cluster, found, counted, Terms(units, deadline_s=2 * 3600), 1000)
    report = made.report
    usable = [row for row in report.rows if not row.objection]
    assert usable
    assert [row.usd.value for row in usable] == sorted(row.usd.value for row in usable)
    assert any(row.objection.startswith("takes") for row in report.rows)
    poor = ranked(model, cluster, found, counted, Terms(units, budget_usd=0.01), 3).report
    assert all(row.objection.startswith("costs") for row in poor.rows)
    document = json.loads(encode(report))
    assert document["schema"] == "skyline.plan/1"
    assert document["provenance"] == "modelled"
    assert made.perfetto(1)
    for number in (0, len(report.rows) + 1):
        with pytest.raises(UsageError, match="no row"):
            made.perfetto(number)


def _profile(batch_size=4):
    """Three blocks of one product each, and a head."""
    names = ("Net", "Net.blocks.0", "Net.blocks.1", "Net.blocks.2", "Net.head")
    shape = OperatorShape("aten::mm", ((4, 8), (8, 8)), ("float32",) * 2, ((4, 8),), ("float32",), 512, 512)
    records = [
        SimpleNamespace(iteration=0, shape=0, kind=RecordKind.KERNEL, phase=phase, module=module)
        for phase in (Phase.FORWARD, Phase.BACKWARD)
        for module in range(1, 5)
    ]
    modules = [
        SimpleNamespace(
            path=name, parameter_count=0 if name == "Net" else 64, kept_bytes=1000 if name == "Net" else 200
        )
        for name in names
    ]
    trace = SimpleNamespace(
        iterations=[SimpleNamespace(index=0)], records=records, shapes=[shape], modules=names
    )
    return SimpleNamespace(
        trace=trace,
        modules=modules,
        sources=(),
        batch_size=batch_size,
        batch=BatchFact((), batch_size),
        script="/x/net.py",
        prediction=None,
    )


def test_repeated_module_of_a_trace_is_the_block(counted):
    program = traced_program(_profile())
    layers = program.layers(None)
    assert program.name == "net.py"
    assert (layers.blocks, layers.block.parameters, layers.last.parameters) == (3, 64, 64)
    assert layers.block.saved_bytes == 200
    assert layers.last.saved_bytes == 1000 - 3 * 200
    assert len(layers.block.forward) == len(layers.block.backward) == len(layers.last.forward) == 1
    found = search(
        program, [cluster_named("dgx-a100").with_gpus(8)], counted, Request(micro_batch=program.batch)
    )
    assert found.rows
    assert all(row.strategy.tensor == row.strategy.context == 1 for row in found.rows)
    assert any("described transformer" in reason for reason in found.refused)
    # A script steps after each batch; rewrites make data and sharded parallelism.
    assert all(row.strategy.accumulation == 1 for row in found.rows if row.strategy.pipeline == 1)
    report = ranked(program, cluster_named("dgx-a100"), found, counted, Terms(), 50).report
    written = {
        row.label: row.whatifs
        for row in report.rows
        if row.strategy.recompute is Recompute.NONE and row.whatifs
    }
    assert written == {
        "ddp 8, micro-batch 4 x 1": ("data_parallel=8",),
        "fsdp 8, micro-batch 4 x 1": ("fsdp=8",),
    }


def test_of_equally_good_strategies_the_written_one_comes_first(counted):
    program, cluster = traced_program(_profile()), cluster_named("dgx-a100").with_gpus(8)
    found = search(program, [cluster], counted, Request(micro_batch=program.batch))
    written = next(row for row in found.rows if row.strategy.label() == "ddp 8, micro-batch 4 x 1")
    others = [row for row in found.rows if row.strategy.sharding is Sharding.ZERO_2][:1]

    def first(slower):
        us = slower * others[0].step_us.value * written.units_per_step / others[0].units_per_step
        equal = replace(written, step_us=Interval(us, 0.8 * us, 1.2 * us))
        found.rows[:] = sorted([*others, equal], key=lambda row: -row.units_per_s.value)
        return ranked(program, cluster, found, counted, Terms(), 9).report.rows[0]

    others[0] = replace(others[0], step_us=Interval(1e4, 0.8e4, 1.2e4))
    best = first(slower=1.004)
    assert (best.rank, best.whatifs) == (1, ("data_parallel=8",))
    assert best.slower_than_best == pytest.approx(1.004)
    assert first(slower=1.006).whatifs == ()


def test_a_step_of_several_passes_is_described_by_one_of_them(counted):
    once, often = _profile(), _profile()
    often.trace.records = [one for one in once.trace.records for _ in range(6)]
    often.batch = BatchFact((4,), 24, micro_batches=6)
    alone, program = traced_program(once), traced_program(often)
    assert (program.batch, program.passes) == (4, 6)
    assert program.flops == alone.flops
    assert len(program.whole.block.forward) == len(alone.whole.block.forward)
    request = Request(micro_batch=program.batch, passes=program.passes)
    found = search(program, [cluster_named("dgx-a100").with_gpus(4)], counted, request)
    # The script's own six passes on each rank, or shared by the ranks.
    replicated = [row.strategy for row in found.rows if row.strategy.pipeline == 1]
    assert {one.accumulation for one in replicated if one.data == 4} <= {2, 6}
    report = ranked(program, cluster_named("dgx-a100"), found, counted, Terms(), 50).report
    written = {row.label: row.whatifs for row in report.rows if row.whatifs}
    assert written["ddp 4, micro-batch 4 x 6"] == ("data_parallel=4",)


def test_a_trace_without_shapes_or_batch_is_refused():
    with pytest.raises(UsageError, match="batch size"):
        traced_program(_profile(batch_size=None))
    empty = _profile()
    empty.trace.records = []
    with pytest.raises(UsageError, match="shapes"):
        traced_program(empty)


def test_strategies_that_change_the_training_are_searched_where_they_are_asked_for(counted):
    cluster, model = cluster_named("two-desktops"), transformer_named("gpt2")
    plain = search(model, [cluster], counted, Request(micro_batch=4))
    assert all(row.strategy.sent == 1 for row in plain.rows)
    found = search(model, [cluster], counted, Request(micro_batch=4, topk=0.01))
    sparse = [row for row in found.rows if row.strategy.sent < 1]
    assert sparse
    assert all(row.strategy.sharding is Sharding.NONE for row in sparse)
    report = ranked(model, cluster, found, counted, Terms(), 50).report
    assert any(row.label.endswith("(changes convergence)") for row in report.rows)


def test_pipelines_without_flushes_are_searched_where_they_are_asked_for(counted):
    cluster, model = cluster_named("dgx-h100").with_gpus(8), transformer_named("llama3-8b")
    plain = search(model, [cluster], counted, Request(micro_batch=1))
    assert all(row.strategy.schedule.flushes for row in plain.rows)
    found = search(model, [cluster], counted, Request(micro_batch=1, asynchronous=True))
    flowing = [row for row in found.rows if not row.strategy.schedule.flushes]
    assert flowing
    assert all("(changes convergence)" in row.strategy.label() for row in flowing)
    # They are added to the layouts that flush, and replace none of them.
    flushed = {row.strategy for row in found.rows} - {row.strategy for row in flowing}
    assert flushed == {row.strategy for row in plain.rows}
    report = ranked(model, cluster, found, counted, Terms(), 200).report
    row = next(one for one in report.rows if not one.strategy.schedule.flushes)
    assert len(row.stage_memory_bytes) == row.strategy.pipeline
    assert row.stage_memory_bytes[0] == pytest.approx(row.memory_bytes.value)
    assert list(row.stage_memory_bytes[:-1]) == sorted(row.stage_memory_bytes[:-1], reverse=True)
    assert all(one.stage_memory_bytes == () for one in report.rows if one.strategy.pipeline == 1)
    changing = [str(one.rank) for one in report.rows if not one.strategy.schedule.flushes]
    assert f"These rows change convergence: {', '.join(changing)}." in str(plan_page(report))
    flushing = replace(report, rows=tuple(one for one in report.rows if one.strategy.schedule.flushes))
    assert "These rows change convergence" not in str(plan_page(flushing))
    shown = str(row_page(report, row))
    assert f"Memory of the stages: {format_bytes(row.stage_memory_bytes[0])}" in shown
    many = replace(row, stage_memory_bytes=(3e9,) * 8 + (2e9,))
    assert f"stages: {format_bytes(3e9)} (first) to {format_bytes(2e9)} (last)." in str(
        row_page(report, many)
    )
