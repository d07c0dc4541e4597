"""A product from a recording, which notes no outputs, is predicted like one from a trace by shape, which does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyline.graph.task import WorkClass, work_class
from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape, RecordKind
from skyline.trace.store import load
from skyline_predictors.predictions import all_predictors

RECORDED = Path(__file__).parents[2] / "benchmarks" / "gpu_h200" / "changes_gpt2.profile.json.gz"
NOTED = OperatorShape(
    "aten::addmm",
    ((2304,), (8192, 768), (768, 2304)),
    ("float32",) * 3,
    ((8192, 2304),),
    ("float32",),
    2 * 8192 * 768 * 2304,
)


@pytest.mark.parametrize("number_format", ["float32", "tfloat32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(all_predictors()))
def test_the_output_need_not_be_noted(name: str, number_format: str) -> None:
    noted = replace(NOTED, dtypes=(number_format,) * 3, output_dtypes=(number_format,))
    recorded = replace(noted, outputs=(), output_dtypes=())
    told, again = all_predictors()[name].predict((noted, recorded), gpu_named("H200"))
    assert again.time_us == told.time_us


def test_recorded_products_take_about_as_long_as_predicted() -> None:
    profile = load(RECORDED)
    kernels = [
        one
        for one in profile.trace.records
        if one.kind is RecordKind.KERNEL and one.shape >= 0 and work_class(one.name) is WorkClass.MATMUL
    ]
    shapes = tuple(profile.trace.shapes[one.shape] for one in kernels)
    told = all_predictors()["mixed"].predict(shapes, gpu_named("H200"))
    ratio = sum(one.time_us.value for one in told) / sum(one.duration_us for one in kernels)
    assert 0.7 < ratio < 1.4
