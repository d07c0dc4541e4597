"""Float32 products of a traced script in TF32, where it allows that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skyline.predict.gpus import gpu_named
from skyline.predict.predicted_times import in_allowed_format
from skyline.trace.record import OperatorShape

PRODUCT = OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float32", "float32"), ((8, 8),), ("float32",))


@pytest.mark.parametrize(
    ("precision", "gpu", "number_format"),
    [
        ("high", "a100", "tfloat32"),
        ("highest", "a100", "float32"),
        (None, "a100", "float32"),
        ("high", "v100", "float32"),
    ],
)
def test_products_are_in_tf32_where_script_and_gpu_allow_it(precision, gpu, number_format):
    profile = SimpleNamespace(settings=SimpleNamespace(matmul_precision=precision))
    found = in_allowed_format(PRODUCT, profile, gpu_named(gpu))
    assert found.dtypes == (number_format,) * 2


def test_other_operators_and_formats_stay():
    profile = SimpleNamespace(settings=SimpleNamespace(matmul_precision="high"))
    relu = OperatorShape("aten::relu", ((8,),), ("float32",))
    half = OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float16", "float16"))
    assert in_allowed_format(relu, profile, gpu_named("a100")) == relu
    assert in_allowed_format(half, profile, gpu_named("a100")) == half
