"""What a GPU reaches in a number format: a share of its stated peak, or what its board's power allows for long."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.number_format import MEASURED, peak_tflops

_NEXT_PROCESS = 1.43
"""From 7 nm to 5 nm the same work takes 30 % less power, as the foundry states."""
_AT_REST_WATTS = 20.0
"""What regulators and memory take of a board's power before anything is computed, as idle boards show."""
_CONSUMER_AMPERE, _ADA, _BLACKWELL = 80.0, 135.0, 160.0
"""Float32 GFLOP/s per further watt, of parts without a calibrated figure of their own. Ada's comes from an L4, whose
large float32 products were measured at a fifth to a quarter of the stated peak; the others are orders of magnitude."""
_ON_UNITS, _BLACKWELL_ON_UNITS = 10.0, 13.0
"""16-bit products on matrix units make that many times as much of a watt: what published results of large products on
V100, A100 and H100 come to."""
_SHARPNESS = 6.0
_PLAIN = frozenset({MEASURED, "float64", "complex64", "complex128"})


@dataclass(frozen=True, slots=True)
class PowerConstants:
    """Float32 GFLOP/s that a watt beyond those at rest sustains, on processes of 16 and 12 nm and of 7 nm.

    ``settles_us`` is how long a kernel has to be for a measurement of its fastest calls to meet the limit half.
    """

    gflop_per_watt_12nm: float
    gflop_per_watt_7nm: float
    settles_us: float


def reached_tflops(gpu: GpuSpec, number_format: str, share: float) -> float:
    """Dense TFLOP/s of large products for a moment, ``share`` of the peak."""
    return peak_tflops(gpu, number_format) * share


def sustained_tflops(gpu: GpuSpec, number_format: str, share: float, power: PowerConstants) -> float:
    """Dense TFLOP/s of large products for long: bent down towards what the power allows."""
    reached = reached_tflops(gpu, number_format, share)
    allowed = _allowed_tflops(gpu, number_format, power)
    return float((reached**-_SHARPNESS + allowed**-_SHARPNESS) ** (-1 / _SHARPNESS))


def _allowed_tflops(gpu: GpuSpec, number_format: str, power: PowerConstants) -> float:
    if gpu.vendor != "NVIDIA" or gpu.board_power_watts <= 0:
        return float("inf")
    per_watt = _gflop_per_watt(gpu, power)
    if _on_units(gpu, number_format):
        per_watt *= _BLACKWELL_ON_UNITS if gpu.architecture == "Blackwell" else _ON_UNITS
        per_watt *= 2 if number_format.startswith("float8") else 0.5 if number_format == "tfloat32" else 1
    return per_watt * max(1.0, gpu.board_power_watts - _AT_REST_WATTS) / 1e3


def _on_units(gpu: GpuSpec, number_format: str) -> bool:
    """Whether products of this format run on matrix units, and not as plain arithmetic."""
    stated = {
        "tfloat32": gpu.tflops_tf32,
        "bfloat16": gpu.tflops_bf16,
        "float16": gpu.tflops_fp16 if gpu.fp16_on_tensor_cores else None,
    }
    if number_format.startswith("float8"):
        stated[number_format] = gpu.tflops_fp8 or gpu.tflops_bf16
    own = stated.get(number_format)
    return own is not None and number_format not in _PLAIN


def _gflop_per_watt(gpu: GpuSpec, power: PowerConstants) -> float:
    if gpu.compute_capability < (8, 0):
        return power.gflop_per_watt_12nm
    if gpu.compute_capability == (8, 0):
        return power.gflop_per_watt_7nm
    if gpu.architecture == "Hopper":
        return power.gflop_per_watt_7nm * _NEXT_PROCESS
    return {"Ampere": _CONSUMER_AMPERE, "Ada": _ADA}.get(gpu.architecture, _BLACKWELL)
