import json
from types import SimpleNamespace

import pytest

from skyline.errors import UsageError
from skyline.plan.cluster import cluster_named
from skyline.plan.search import Request, search
from skyline.plan.traced import traced_program
from skyline.plan.transformer import transformer_named
from skyline.report.build import encode
from skyline.report.plan import Terms, plan_report, plan_timeline
from skyline.trace.record import OperatorShape, Phase, RecordKind


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


def test_global_batch_is_the_same_in_every_row(counted):
    cluster = cluster_named("dgx-h100").with_gpus(8)
    found = search(transformer_named("gpt2"), [cluster], counted, Request(global_batch=64))
    assert {row.strategy.samples_per_step for row in found.rows} == {64}
    with pytest.raises(UsageError, match="global batch"):
        search(transformer_named("gpt2"), [cluster], counted, Request(global_batch=100_003))


def test_a_model_that_is_too_large_names_the_closest(counted):
    cluster = cluster_named("two-desktops")
    found = search(transformer_named("llama3-70b"), [cluster], counted, Request())
    assert not found.rows
    report = plan_report(transformer_named("llama3-70b"), cluster, found, Terms(), 5)
    assert "needs" in report.closest


def test_budget_and_deadline_object_and_cost_ranks(counted):
    model, cluster = transformer_named("gpt2"), cluster_named("p4d.24xlarge")
    sizes = [cluster.with_gpus(8), cluster.with_gpus(32)]
    found = search(model, sizes, counted, Request())
    fast = found.rows[0].units_per_s.value
    units = fast * 3600
    report = plan_report(model, cluster, found, Terms(units, deadline_s=2 * 3600), 1000)
    usable = [row for row in report.rows if not row.objection]
    assert usable
    assert [row.usd.value for row in usable] == sorted(row.usd.value for row in usable)
    assert any(row.objection.startswith("takes") for row in report.rows)
    poor = plan_report(model, cluster, found, Terms(units, budget_usd=0.01), 3)
    assert all(row.objection.startswith("costs") for row in poor.rows)
    document = json.loads(encode(report))
    assert document["schema"] == "skyline.plan/1"
    assert document["provenance"] == "modelled"
    assert plan_timeline(model, found.rows, report.rows[0].label, counted)
    assert plan_timeline(model, found.rows, "none", counted) is None


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
        trace=trace, modules=modules, batch_size=batch_size, script="/x/net.py", prediction=None
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


def test_a_trace_without_shapes_or_batch_is_refused():
    with pytest.raises(UsageError, match="batch size"):
        traced_program(_profile(batch_size=None))
    empty = _profile()
    empty.trace.records = []
    with pytest.raises(UsageError, match="shapes"):
        traced_program(empty)
