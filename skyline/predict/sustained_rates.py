"""Sustained rates of a GPU for large kernels of a number format, by the installed predictor."""

from __future__ import annotations

from functools import cache

from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.registry import across_formats
from skyline.predict.wave_scaling import Rates
from skyline.trace.shape import OperatorShape

_SIDE = 8192
_ELEMENTS = 1 << 28
_STATED = {
    "tfloat32": "tflops_tf32",
    "bfloat16": "tflops_bf16",
    "float16": "tflops_fp16",
}
_NARROW = frozenset({"bfloat16", "float16"})


@cache
def sustained_rates(gpu: GpuSpec, number_format: str) -> Rates:
    """Rates from a large product and a large elementwise operator: boards differ in how close they come to their peaks.

    Without an installed predictor, the vendor's peaks. Formats without hardware support are computed in float32.
    """
    stated = getattr(gpu, _STATED.get(number_format, ""), None)
    predictor = across_formats()
    if predictor is None:
        return Rates(gpu.bandwidth_gb_s, stated or gpu.tflops_fp32, gpu.multiprocessors)
    used = number_format if stated or number_format not in _STATED else "float32"
    product, passing = _product(used), _elementwise()
    product_time, passing_time = predictor.predict((product, passing), gpu)
    return Rates(
        passing.bytes_moved / passing_time.time_us.value / 1e3,
        product.flops / product_time.time_us.value / 1e6,
        gpu.multiprocessors,
    )


def _product(number_format: str) -> OperatorShape:
    size = (_SIDE, _SIDE)
    width = 2 if number_format in _NARROW else 4
    return OperatorShape(
        "aten::mm",
        (size, size),
        (number_format,) * 2,
        (size,),
        (number_format,),
        2 * _SIDE**3,
        3 * width * _SIDE**2,
    )


def _elementwise() -> OperatorShape:
    size = (_ELEMENTS,)
    return OperatorShape("aten::relu", (size,), ("float32",), (size,), ("float32",), 0, 8 * _ELEMENTS)
