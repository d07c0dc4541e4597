from __future__ import annotations

from dataclasses import replace

from skyline.findings.odd_sizes import RULE
from skyline.trace.facts import ModuleFact, TorchSettings
from skyline.trace.record import RecordKind


def layer(path, line, inputs, outputs):
    options = {"in_features": inputs, "out_features": outputs}
    return ModuleFact(path, "Linear", True, inputs * outputs, True, options, created_line=line)


def model(profile, outputs, **settings):
    records = tuple(
        replace(one, module=0) if one.kind is RecordKind.KERNEL else one for one in profile.trace.records
    )
    modules = ("Net.head",)
    return replace(
        profile,
        trace=replace(profile.trace, records=records, modules=modules),
        modules=(layer("Net.head", profile.trace.lines[2], 768, outputs),),
        settings=TorchSettings(**{"autocast": "bfloat16", "compute_capability": (8, 0), **settings}),
    )


def test_the_largest_odd_layer_is_pointed_at(gpu_script, checked):
    found = checked(RULE, model(gpu_script([("gemm", 3000.0)] * 2), 50_257))
    assert (found.line, found.whatif) == (7, "pad_to_multiple=8")
    assert "768 by 50257" in found.title
    assert found.cost_ms > 0.5


def test_friendly_sizes_and_products_without_matrix_units_are_left_alone(gpu_script, profile, checked):
    script = gpu_script([("gemm", 3000.0)] * 2)
    assert checked(RULE, model(script, 50_304)) is None
    assert checked(RULE, model(script, 50_257, autocast="", matmul_precision="highest")) is None
    assert checked(RULE, profile) is None
