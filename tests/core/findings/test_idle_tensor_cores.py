from __future__ import annotations

from dataclasses import replace

from skyline.findings.idle_tensor_cores import RULE
from skyline.trace.facts import Device, TorchSettings
from skyline.trace.record import OperatorShape, RecordKind


def product(number_format):
    kinds = (number_format,) * 2
    side = ((4096, 4096),)
    return OperatorShape("aten::mm", side * 2, kinds, side, kinds[:1], 2 * 4096**3, 12 * 4096**2)


def on(profile, name="NVIDIA A100-SXM4-80GB", number_format="float32", **settings):
    records = tuple(
        replace(one, shape=0) if one.kind is RecordKind.KERNEL else one for one in profile.trace.records
    )
    return replace(
        profile,
        environment=replace(profile.environment, device=Device(name, "cuda")),
        trace=replace(profile.trace, records=records, shapes=(product(number_format),)),
        settings=TorchSettings(**{"matmul_precision": "highest", "compute_capability": (8, 0), **settings}),
    )


def test_plain_float32_on_a_gpu_with_tf32(gpu_script, checked):
    found = checked(RULE, on(gpu_script([("aten::mm", 5000.0)] * 4)))
    assert (found.line, found.whatif) == (5, "tf32")
    # Four products of 5 ms are nearly all of the iteration, and TF32 takes most of them.
    assert 5.0 < found.cost_ms < 20.0
    assert found.evidence[0].text.startswith("20 ms")


def test_without_tf32_it_is_mixed_precision(gpu_script, checked):
    found = checked(RULE, on(gpu_script([("aten::mm", 5000.0)] * 4), "Tesla V100", compute_capability=(7, 0)))
    assert found.whatif == "amp"


def test_other_formats_earlier_gpus_and_little_arithmetic_are_left_alone(gpu_script, profile, checked):
    heavy = gpu_script([("aten::mm", 5000.0)] * 4)
    assert checked(RULE, on(heavy, matmul_precision="high")) is None
    assert checked(RULE, on(heavy, number_format="bfloat16")) is None
    assert checked(RULE, on(heavy, "Tesla P100", compute_capability=(6, 0))) is None
    assert checked(RULE, on(gpu_script([("aten::add", 5000.0), ("aten::mm", 100.0)]))) is None
    assert checked(RULE, profile) is None


def test_in_a_trace_the_names_of_kernels_tell(traced, checked):
    found = checked(RULE, traced)
    assert found is not None
    assert found.whatif == "tf32"
