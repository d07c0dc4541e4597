"""A GPU as the physics of kernels needs it, computed from its data sheet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.gpu_generation import generation

_NARROW = frozenset({(7, 0), (7, 2), (7, 5), (8, 0)})
"""Compute capabilities whose schedulers feed 16 lanes of float32 each; all others feed 32."""
_STACKED = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities of the parts with stacked memory."""
_LANES_AT_BASE = 64
_L2_BYTES_PER_CLOCK = 64
"""Bytes that one multiprocessor draws from the second-level cache: the width of its port."""
_NEXT_PROCESS = 1.43
"""From 7 nm to 5 nm the same work takes 30 % less power, as the foundry states."""


class RateConstants(msgspec.Struct, frozen=True):
    """Share of its peak that a GPU sustains in float32 arithmetic, one for all.

    ``narrow`` and ``wide`` are the shares of the peak that the inner loop of a product can reach, by the lanes that
    one scheduler feeds. It issues one instruction per clock: where it feeds 16 lanes, a multiply-add occupies them
    for two clocks, and loads and addresses are issued in between; where it feeds 32, for one, and everything else
    that is issued takes its place.

    The board's power allows so many GFLOP/s per watt, on processes of 16 and 12 nm, and of 7 nm. The clock falls
    over ``settles_us``: shorter kernels are done before.
    """

    narrow: float
    wide: float
    gflop_per_watt_12nm: float
    gflop_per_watt_7nm: float
    settles_us: float


@dataclass(frozen=True, slots=True)
class LearnedGpu:
    """One GPU in µs and bytes.

    ``lanes`` counts those of a multiprocessor in units of 64. ``flop_per_us`` is the stated peak in float32,
    ``issued_flop_per_us`` what the schedulers can issue, ``allowed_flop_per_us`` what the board's power allows.
    """

    multiprocessors: int
    lanes: float
    flop_per_us: float
    issued_flop_per_us: float
    allowed_flop_per_us: float
    settles_us: float
    bytes_per_us: float
    l2_bytes: float
    l2_bytes_per_us: float
    stacked_memory: bool
    generation: str

    @property
    def ridge(self) -> float:
        """Flop that can be issued for each byte that memory delivers."""
        return self.issued_flop_per_us / self.bytes_per_us

    @property
    def held_back(self) -> float:
        """Issue rate over the rate that power allows."""
        return self.issued_flop_per_us / self.allowed_flop_per_us


def machine(gpu: GpuSpec, rates: RateConstants) -> LearnedGpu:
    """That of ``gpu``."""
    clock_per_us = max(1.0, float(gpu.clock_mhz))
    flop_per_us = gpu.tflops_fp32 * 1e6
    bytes_per_us = gpu.bandwidth_gb_s * 1e3
    wide = gpu.vendor == "NVIDIA" and gpu.compute_capability not in _NARROW
    return LearnedGpu(
        multiprocessors=gpu.multiprocessors,
        lanes=flop_per_us / (2 * gpu.multiprocessors * clock_per_us) / _LANES_AT_BASE,
        flop_per_us=flop_per_us,
        issued_flop_per_us=flop_per_us * (rates.wide if wide else rates.narrow),
        allowed_flop_per_us=_allowed(gpu, rates),
        settles_us=rates.settles_us,
        bytes_per_us=bytes_per_us,
        l2_bytes=float(gpu.l2_bytes),
        l2_bytes_per_us=gpu.multiprocessors * clock_per_us * _L2_BYTES_PER_CLOCK,
        stacked_memory=gpu.vendor == "AMD" or gpu.compute_capability in _STACKED,
        generation=generation(gpu),
    )


def _allowed(gpu: GpuSpec, rates: RateConstants) -> float:
    """Where nothing is known of the power, or matrix units do the work, it is not taken to be a limit."""
    if gpu.vendor != "NVIDIA" or gpu.board_power_watts <= 0:
        return math.inf
    if gpu.compute_capability < (8, 0):
        per_watt = rates.gflop_per_watt_12nm
    elif gpu.compute_capability < (8, 9):
        per_watt = rates.gflop_per_watt_7nm
    else:
        per_watt = rates.gflop_per_watt_7nm * _NEXT_PROCESS
    return per_watt * gpu.board_power_watts * 1e3
