"""A GPU as the physics of kernels needs it, computed from its data sheet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import median

import msgspec

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.devices import gpus

_AT_REST = 0.15
"""Share of the power at the stated clock that regulators, leakage and memory take: 105 of an H200's 700 W, 66
of an A100's 400 W (least squares over power, bytes and arithmetic in te42kyfo/gpu-benches, gpu-roofline)."""
_LEAST_VOLTAGE = 0.65
"""Voltage at the lowest clock as a share of the voltage at the highest. Assumed from 0.65 to 0.7 V of 1.05 V."""


@cache
def sustained_clock(gpu: GpuSpec) -> float:
    """Share of the stated clock that a board's power sustains in float32. 1 if power is no limit or is not known.

    Among boards of one architecture, the fastest ones have enough power for a high clock. With less power,
    clock and voltage are lower: apart from a constant share, power is proportional to the clock and to the
    square of the voltage.
    """
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


_NARROW = frozenset({(7, 0), (7, 2), (7, 5), (8, 0)})
"""Compute capabilities whose schedulers feed 16 lanes of float32 each; all others feed 32."""
_PAIRED = frozenset({5, 6})
"""Major compute capabilities whose schedulers can issue two instructions at once (CUDA C++ Programming
Guide). cuBLAS has the same kernels for both."""
_STACKED = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities of the GPUs with stacked memory."""
_FIRST_STACKED, _FIRST_DELIVERS = (6, 0), 900 / 732 / 1.5
"""The first GPUs with stacked memory deliver a smaller share of its stated bandwidth than later ones: the
V100's 900 GB/s are 1.5 times the delivered rate of the P100's 732, by a new memory controller (NVIDIA, "Tesla
V100 GPU Architecture", 2017)."""
_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536}
"""Threads that a multiprocessor holds, by compute capability; 2048 on all others (CUDA C++ Programming Guide)."""
_L1_KB = {
    **{(7, 0): 128, (7, 2): 128, (7, 5): 64, (8, 0): 192, (8, 6): 128, (8, 7): 192, (8, 9): 128},
    **{(9, 0): 256, (10, 0): 256, (10, 3): 256, (12, 0): 128},
}
"""KiB of first-level cache of a multiprocessor without shared memory, by compute capability (CUDA C++
Programming Guide). Earlier GPUs do not keep rows in it: they have 24 to 48 KiB or do not cache loads at all."""
_L2_FOR_ROWS = 0.5
"""Share of the second-level cache that serves rows if the first level is too small for them. Results pass
through it too. No measured GPU has a second level that is large enough to check this; GPUs of the Ada
generation do."""
_LANES_AT_BASE = 64
_L2_BYTES_PER_CLOCK = 64
"""Bytes that one multiprocessor reads from the second-level cache per clock: the width of its port."""


class RateConstants(msgspec.Struct, frozen=True):
    """Shares of its peak that a GPU sustains in float32 arithmetic, the same for all GPUs.

    ``narrow`` and ``wide`` are the shares of the peak that the inner loop of a product can reach, by the
    number of lanes that one scheduler feeds. A scheduler issues one instruction per clock. With 16 lanes, a
    multiply-add occupies them for two clocks, so loads and addresses can be issued in between. With 32 lanes
    it occupies them for one clock, so every other instruction costs arithmetic: at least a sixth of the
    instructions of inner loops. ``paired`` is the share with 32 lanes if a second instruction can be issued
    along with the first (Maxwell and Pascal): the P100's products reach 0.94 of the peak, its convolutions
    0.79. All three are set, not fitted.

    The clock falls to the level that the board's power sustains within ``settles_us``. Shorter kernels end
    before.
    """

    narrow: float
    wide: float
    paired: float
    settles_us: float


@dataclass(frozen=True, slots=True)
class LearnedGpu:
    """One GPU in µs and bytes.

    ``lanes`` is the number of lanes of a multiprocessor in units of 64. ``flop_per_us`` is the stated peak in
    float32, ``issued_flop_per_us`` the rate that the schedulers can issue at the stated clock,
    ``sustained_clock`` the share of that clock that the board's power sustains. ``bytes_per_us`` is the
    stated bandwidth. ``delivered_bytes_per_us`` is lower for the first stacked memory. ``warps_per_us`` is
    the rate of warp instructions of all schedulers, ``threads`` the number of threads that the GPU holds.
    ``row_bytes`` is the cache for rows in progress: the first level of all multiprocessors, or the second
    level. ``maxwell_kernels`` is true if libraries have only Maxwell's kernels for products.
    """

    multiprocessors: int
    lanes: float
    flop_per_us: float
    issued_flop_per_us: float
    sustained_clock: float
    settles_us: float
    bytes_per_us: float
    delivered_bytes_per_us: float
    l2_bytes: float
    l2_bytes_per_us: float
    warps_per_us: float
    threads: float
    row_bytes: float
    stacked_memory: bool
    maxwell_kernels: bool
    generation: str

    @property
    def ridge(self) -> float:
        """Flop that can be issued for each byte that memory delivers."""
        return self.issued_flop_per_us / self.bytes_per_us


def machine(gpu: GpuSpec, rates: RateConstants) -> LearnedGpu:
    """The physical figures of ``gpu``."""
    clock_per_us = max(1.0, float(gpu.clock_mhz))
    flop_per_us = gpu.tflops_fp32 * 1e6
    delivered = (
        _FIRST_DELIVERS if gpu.vendor == "NVIDIA" and gpu.compute_capability == _FIRST_STACKED else 1.0
    )
    bytes_per_us = gpu.bandwidth_gb_s * 1e3
    wide = gpu.vendor == "NVIDIA" and gpu.compute_capability not in _NARROW
    paired = gpu.vendor == "NVIDIA" and gpu.compute_capability[0] in _PAIRED
    share = rates.paired if paired else rates.wide if wide else rates.narrow
    return LearnedGpu(
        multiprocessors=gpu.multiprocessors,
        lanes=flop_per_us / (2 * gpu.multiprocessors * clock_per_us) / _LANES_AT_BASE,
        flop_per_us=flop_per_us,
        issued_flop_per_us=flop_per_us * share,
        sustained_clock=sustained_clock(gpu),
        settles_us=rates.settles_us,
        bytes_per_us=bytes_per_us,
        delivered_bytes_per_us=bytes_per_us * delivered,
        l2_bytes=float(gpu.l2_bytes),
        l2_bytes_per_us=gpu.multiprocessors * clock_per_us * _L2_BYTES_PER_CLOCK,
        warps_per_us=flop_per_us / 64 * (1 if wide else 2),
        threads=_THREADS.get(gpu.compute_capability, 2048) * gpu.multiprocessors,
        row_bytes=_row_bytes(gpu),
        stacked_memory=gpu.vendor == "AMD" or gpu.compute_capability in _STACKED,
        maxwell_kernels=paired,
        generation=gpu.generation,
    )


def _row_bytes(gpu: GpuSpec) -> float:
    first_level = _L1_KB.get(gpu.compute_capability, 0) if gpu.vendor == "NVIDIA" else 0
    if not first_level:
        return float(gpu.l2_bytes)
    return max(first_level * 1024.0 * gpu.multiprocessors, _L2_FOR_ROWS * gpu.l2_bytes)
