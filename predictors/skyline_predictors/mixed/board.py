"""The rates of arithmetic and memory that a board sustains within its power limit."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.number_format import peak_tflops

_SHARPNESS = 6.0
_AT_REST_SHARE = 0.1
"""Share of a board's power that regulators, leakage and memory take at rest: about 70 W of an H100, 25 W of a V100."""
_PROCESS = {
    "Volta": "12nm",
    "Turing": "12nm",
    "Pascal": "12nm",
    "Ampere": "8nm",
    "Ada": "5nm",
    "Hopper": "5nm",
}
"""Manufacturing process of each architecture's chips. Later architectures use the figures of 5 nm."""
_STACKED_MEMORY = frozenset({(7, 0), (8, 0), (9, 0), (10, 0), (10, 3)})
"""Compute capabilities of boards with HBM, whose memory takes little of the power."""


@dataclass(frozen=True, slots=True)
class Board:
    """One GPU: flop and bytes per µs in one number format, and the size of its multiprocessors and caches.

    ``plain_flop_per_us`` is the rate of float32 arithmetic outside the matrix units.
    """

    multiprocessors: float
    matrix_flop_per_us: float
    plain_flop_per_us: float
    bytes_per_us: float
    l2_bytes: float
    l2_bytes_per_us: float
    tile_bytes_per_us: float
    on_units: bool


def board(gpu: GpuSpec, number_format: str, constants: Mapping[str, float]) -> Board:
    """The sustained rates of a GPU in a number format."""
    process = _process(gpu)
    watts = (1 - _AT_REST_SHARE) * gpu.board_power_watts if gpu.board_power_watts > 0 else 1e6
    peak = peak_tflops(gpu, number_format) * 1e6
    matrix = _limited(peak, _matrix_per_watt(gpu, number_format, constants, process) * watts)
    plain = _limited(gpu.tflops_fp32 * 1e6, constants[f"plain_gflop_per_watt_{process}"] * 1e3 * watts)
    per_clock = gpu.multiprocessors * gpu.clock_mhz
    return Board(
        float(gpu.multiprocessors),
        matrix,
        plain,
        _memory(gpu, watts, constants),
        float(gpu.l2_bytes),
        per_clock * constants["l2_bytes_per_clock"] * plain / (gpu.tflops_fp32 * 1e6),
        per_clock * constants["tile_bytes_per_clock"],
        _on_units(gpu, number_format),
    )


def _memory(gpu: GpuSpec, watts: float, constants: Mapping[str, float]) -> float:
    """Bytes per µs. The power limit of a board can reduce the bandwidth of graphics memory."""
    stated = gpu.bandwidth_gb_s * 1e3
    if gpu.compute_capability in _STACKED_MEMORY:
        return stated
    return _limited(stated, constants["gbyte_per_watt"] * 1e3 * watts)


def _process(gpu: GpuSpec) -> str:
    if gpu.compute_capability == (8, 0):
        return "7nm"
    return _PROCESS.get(gpu.architecture, "5nm")


def _matrix_per_watt(gpu: GpuSpec, number_format: str, constants: Mapping[str, float], process: str) -> float:
    """Flop per µs and watt of the matrix units, or of plain arithmetic if they lack the format."""
    if not _on_units(gpu, number_format):
        return constants[f"plain_gflop_per_watt_{process}"] * 1e3
    factor = 2.0 if number_format.startswith("float8") else 0.5 if number_format == "tfloat32" else 1.0
    return constants[f"matrix_gflop_per_watt_{process}"] * 1e3 * factor


def _on_units(gpu: GpuSpec, number_format: str) -> bool:
    """True where products of this format run on matrix units."""
    stated = {
        "tfloat32": gpu.tflops_tf32,
        "bfloat16": gpu.tflops_bf16,
        "float16": gpu.tflops_fp16 if gpu.fp16_on_tensor_cores else None,
    }
    return number_format.startswith("float8") or stated.get(number_format) is not None


def _limited(peak: float, allowed: float) -> float:
    return float((peak**-_SHARPNESS + allowed**-_SHARPNESS) ** (-1 / _SHARPNESS))
