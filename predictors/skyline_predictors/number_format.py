"""Number formats: their width, and the speed at which a GPU multiplies in them."""

from __future__ import annotations

from skyline.predict.gpu_spec import GpuSpec

ELEMENT_BYTES = {
    "float64": 8,
    "int64": 8,
    "complex64": 8,
    "float32": 4,
    "tfloat32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
MEASURED = "float32"
"""The only format with measured times."""
_FP32_PER_FP64 = 32
"""Factor by which 64-bit arithmetic is slower if the maker does not state it."""


def peak_tflops(gpu: GpuSpec, number_format: str) -> float:
    """Dense TFLOP/s of matrix products. Formats without hardware support run at the speed of float32."""
    if number_format in ("float64", "complex64", "complex128"):
        return gpu.tflops_fp64 or gpu.tflops_fp32 / _FP32_PER_FP64
    return gpu.tflops_in(number_format)
