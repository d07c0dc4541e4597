"""Products next to sums for biases, and to work of other layers; nothing where one kernel needs the other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.findings import independent_kernels
from skyline.findings.independent_kernels import RULE
from skyline.predict.gpus import gpu_named
from skyline.trace.facts import Device, ModuleFact
from skyline.trace.kineto.reader import read
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.trace.store import load
from skyline.whatif.recorded import recorded

DATA = Path(__file__).parents[2] / "data"
ROWS, INPUTS, OUTPUTS = 8192, 1024, 2048
FLOPS = 2 * ROWS * INPUTS * OUTPUTS
GEMM, SUM, ACTIVATION = "ampere_sgemm_128x64", "at::native::reduce_kernel<512, 1>", "gelu_backward_kernel"
SPLIT_SUM = "cublasLt::splitKreduce_kernel<32, 16>"
OPTIONS = {"in_features": INPUTS, "out_features": OUTPUTS, "bias": True}
FC = ModuleFact("Net.fc", "Linear", True, INPUTS * OUTPUTS, True, OPTIONS, calls_per_iteration=1)
OF_WEIGHT = ((OUTPUTS, ROWS), (ROWS, INPUTS))
OF_INPUT = ((ROWS, OUTPUTS), (OUTPUTS, INPUTS))


def product(sizes, flops=FLOPS):
    return OperatorShape("aten::mm", sizes, ("float32",) * 2, flops=flops)


@pytest.fixture
def backward(gpu_script):
    """Iterations of a few kernels in the backward pass, each with the module and the shape that it belongs to."""

    def made(*kernels, layer=FC, device="NVIDIA A100-SXM4-80GB"):
        script = gpu_script([(name, took) for name, took, _, _ in kernels], phase=Phase.BACKWARD)
        shapes = tuple(shape for *_, shape in kernels if shape is not None)
        records, at = [], 0
        for record in script.trace.records:
            if record.kind is RecordKind.KERNEL:
                _, _, module, shape = kernels[at % len(kernels)]
                number = -1 if shape is None else shapes.index(shape)
                record = replace(record, module=module, shape=number)  # noqa: PLW2901
                at += 1
            records.append(record)
        return replace(
            script,
            environment=replace(script.environment, device=Device(device, "cuda")),
            modules=(layer,),
            trace=replace(script.trace, modules=("Net.fc", "Net.act"), records=tuple(records), shapes=shapes),
        )

    return made


def test_a_product_and_the_sum_for_the_bias_could_share_the_gpu(backward, checked):
    """Of 2000 and 500 µs the longer one stays."""
    found = checked(RULE, backward((GEMM, 2000.0, 0, product(OF_WEIGHT)), (SUM, 500.0, 0, None)))
    assert found.cost_ms == pytest.approx(0.5, rel=0.01)
    assert found.whatif is None
    assert found.line == 5
    assert "4 pairs in 4 iterations" in found.evidence[0].text
    assert "occupancy was not recorded" in found.evidence[0].text
    assert found.evidence[1].text.startswith("assumed")


def test_the_bound_keeps_the_memory_traffic_of_both(backward, checked):
    """The product reads and writes three matrices; the other kernel's 1990 µs are at the rate of the data sheet."""
    us_per_byte = 1 / (gpu_named("NVIDIA A100-SXM4-80GB").bandwidth_gb_s * 1e3)
    product_us = 4 * (OUTPUTS * ROWS + ROWS * INPUTS + OUTPUTS * INPUTS) * us_per_byte
    traffic = OperatorShape(
        "aten::gelu_backward", ((ROWS, 64),), ("float32",), bytes_moved=int(1990 / us_per_byte)
    )
    found = checked(RULE, backward((GEMM, 2000.0, 0, product(OF_WEIGHT)), (ACTIVATION, 1995.0, 1, traffic)))
    assert found.cost_ms == pytest.approx((3995 - 1990 - product_us) / 1e3, rel=0.01)
    assert found.cost_ms < 1.99


def test_a_kernel_that_is_known_to_need_arithmetic_is_no_partner(backward, checked):
    heavy = OperatorShape("aten::gelu_backward", ((ROWS, 64),), ("float32",), flops=10**9)
    assert (
        checked(RULE, backward((GEMM, 2000.0, 0, product(OF_WEIGHT)), (ACTIVATION, 500.0, 1, heavy))) is None
    )


@pytest.mark.parametrize(
    ("kernels", "layer"),
    [
        # The gradient of the input goes on into the activation's.
        (((GEMM, 2000.0, 0, product(OF_INPUT)), (ACTIVATION, 500.0, 1, None)), FC),
        # A sum may be of the product's own parts, or of its gradient.
        (((GEMM, 2000.0, 0, product(OF_WEIGHT)), (SPLIT_SUM, 500.0, 0, None)), FC),
        (((GEMM, 2000.0, 0, product(OF_WEIGHT)), (ACTIVATION, 500.0, 0, None)), FC),
        (((GEMM, 2000.0, 0, product(OF_WEIGHT)), (ACTIVATION, 500.0, -1, None)), FC),
        # A layer that is called twice may have its own gradient for the incoming one.
        (((GEMM, 2000.0, 0, None), (SUM, 500.0, 0, None)), replace(FC, calls_per_iteration=2)),
        # Sizes that fit both gradients.
        (
            ((GEMM, 2000.0, 0, product(((OUTPUTS, INPUTS), (INPUTS, INPUTS)))), (ACTIVATION, 500.0, 1, None)),
            replace(FC, options={**OPTIONS, "bias": False}),
        ),
        # Both need arithmetic, or both memory.
        (((GEMM, 2000.0, 0, product(OF_WEIGHT)), (GEMM, 500.0, 0, product(OF_INPUT))), FC),
        (((ACTIVATION, 2000.0, 0, None), (SUM, 500.0, 0, None)), FC),
        (((GEMM, 2000.0, 0, product(OF_WEIGHT, flops=1000)), (SUM, 500.0, 0, None)), FC),
        # Too little of the iteration.
        (((GEMM, 2000.0, 0, product(OF_WEIGHT)), (SUM, 20.0, 0, None)), FC),
    ],
)
def test_nothing_is_said_where_kernels_need_each_other_or_the_same(backward, checked, kernels, layer):
    assert checked(RULE, backward(*kernels, layer=layer)) is None


def test_the_gradient_of_a_weight_and_work_of_another_module(backward, checked):
    found = checked(RULE, backward((GEMM, 2000.0, 0, product(OF_WEIGHT)), (ACTIVATION, 500.0, 1, None)))
    assert found.cost_ms == pytest.approx(0.5, rel=0.01)


def test_the_sum_of_a_product_s_own_parts_stands_between_both(backward, checked):
    parts = ((GEMM, 2000.0, 0, product(OF_WEIGHT)), (SPLIT_SUM, 30.0, 0, None))
    assert checked(RULE, backward(*parts, (SUM, 500.0, 0, None))).cost_ms == pytest.approx(0.5, rel=0.01)
    assert checked(RULE, backward(*parts, (ACTIVATION, 500.0, 0, None))) is None


def test_a_recorded_transformer_has_little_of_it(checked, monkeypatch):
    """BERT-base in float32 on an H200; calls that clear counters stand between products and sums."""
    bert = load(Path(__file__).parents[3] / "benchmarks" / "gpu_h200" / "bert_base.profile.json.gz")
    assert checked(RULE, bert) is None
    monkeypatch.setattr(independent_kernels, "_SHARE", 0.01)
    found = checked(RULE, bert)
    assert found.title.endswith("at most 1% of the iteration")
    assert "222 pairs in 3 iterations" in found.evidence[0].text
    assert "data sheet of H200" in found.evidence[0].text


def test_scripts_without_a_gpu_have_no_kernels(profile, checked):
    assert checked(RULE, profile) is None


@pytest.fixture
def summed(tmp_path):
    """The small trace, in which half of the layer's gradient is the sum for its bias."""

    def made(occupancy=None, node="AddmmBackward0"):
        given = json.loads((DATA / "tiny_gpu.trace.json").read_text(encoding="utf-8"))
        more = []
        for event in given["traceEvents"]:
            correlation = event["args"].get("correlation", 0)
            if event["name"].endswith("AddmmBackward0"):
                event["name"] = event["name"].replace("AddmmBackward0", node)
            if correlation % 100 != 21:
                continue
            if event["cat"] == "cuda_runtime":
                twin = dict(event, ts=event["ts"] + 11, dur=5)
            else:
                event["dur"] = 60
                if occupancy is not None:
                    event["args"]["est. achieved occupancy %"] = occupancy
                twin = dict(event, name=SUM, ts=event["ts"] + 61, dur=59)
            more.append(dict(twin, args={**event["args"], "correlation": correlation + 50}))
        given["traceEvents"] += more
        path = tmp_path / "summed.json"
        path.write_text(json.dumps(given), encoding="utf-8")
        return recorded(read(path))

    return made


def test_in_a_trace_the_gradient_that_launched_both_tells(summed, checked):
    found = checked(RULE, summed(25.0))
    assert found.cost_ms == pytest.approx(0.059, abs=0.003)
    assert "by the names of the kernels" in found.evidence[0].text
    assert "occupancy as recorded" in found.evidence[0].text


def test_a_product_that_fills_the_warps_leaves_no_room(summed, checked):
    assert checked(RULE, summed(100)) is None


def test_in_other_gradients_a_sum_may_need_the_product(summed, checked, traced):
    assert checked(RULE, summed(node="ScaledDotProductBackward0")) is None
    assert checked(RULE, traced) is None
