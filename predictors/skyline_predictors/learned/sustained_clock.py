"""The clock that a board's power sustains in float32 arithmetic, from data sheets alone.

The boards of one architecture that are built for speed, not for low power, state how much power goes with how much
arithmetic at a high clock. A board with less power for the same chip runs at a lower clock and a lower voltage, by the
usual law: power in proportion to the clock and to the square of the voltage, and a share that is always taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import median

from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.devices import gpus

_AT_REST = 0.15
"""Share of the power at the stated clock that regulators, leakage and memory take: 105 of an H200's 700 W, 66 of an
A100's 400 W (power with bytes and arithmetic in te42kyfo/gpu-benches, gpu-roofline, by least squares)."""
_LEAST_VOLTAGE = 0.65
"""Share of the voltage at the highest clock that the lowest clock still needs. Assumed: 0.65 to 0.7 V of 1.05 V."""


@cache
def sustained_clock(gpu: GpuSpec) -> float:
    """Share of the stated clock; 1 where the power does not limit it, or nothing is known of it."""
    alike = _boards(gpu.compute_capability)
    if gpu.vendor != "NVIDIA" or gpu.board_power_watts <= 0 or not alike:
        return 1.0
    per_watt = median(one.tflops_fp32 / one.board_power_watts for one in alike)
    highest = max(one.clock_mhz for one in alike)
    given = gpu.board_power_watts / (gpu.tflops_fp32 / per_watt)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        voltage = _LEAST_VOLTAGE + (1 - _LEAST_VOLTAGE) * middle * gpu.clock_mhz / highest
        taken = _AT_REST + (1 - _AT_REST) * middle * voltage**2
        low, high = (middle, high) if taken < given else (low, middle)
    return high


@cache
def _boards(compute_capability: tuple[int, int]) -> Sequence[GpuSpec]:
    return [one for one in gpus() if one.vendor == "NVIDIA" and one.compute_capability == compute_capability]
