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
"""Share of the power at the stated clock that regulators, leakage and memory take: 105 of an H200's 700 W, 66 of an
A100's 400 W (power with bytes and arithmetic in te42kyfo/gpu-benches, gpu-roofline, by least squares)."""
_LEAST_VOLTAGE = 0.65
"""Share of the voltage at the highest clock that the lowest clock still needs. Assumed: 0.65 to 0.7 V of 1.05 V."""


@cache
def sustained_clock(gpu: GpuSpec) -> float:
    """Share of the stated clock that a board's power sustains in float32; 1 where it is no limit, or nothing is known.

    Boards of one architecture that are built for speed state the power of a high clock. With less power the clock and
    the voltage are lower: power is proportional to the clock and to the square of the voltage, with a constant share.
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
"""Major compute capabilities whose schedulers may issue two instructions at once (CUDA C++ Programming Guide); cuBLAS
has the same kernels for them."""
_STACKED = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities of the parts with stacked memory."""
_FIRST_STACKED, _FIRST_DELIVERS = (6, 0), 900 / 732 / 1.5
"""The first parts with stacked memory deliver less of its stated bandwidth than those after: the V100's 900 GB/s are
1.5 times what the P100's 732 deliver, by a new memory controller (NVIDIA, "Tesla V100 GPU Architecture", 2017)."""
_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536}
"""Threads that a multiprocessor holds, by compute capability; 2048 on all others (CUDA C++ Programming Guide)."""
_L1_KB = {
    **{(7, 0): 128, (7, 2): 128, (7, 5): 64, (8, 0): 192, (8, 6): 128, (8, 7): 192, (8, 9): 128},
    **{(9, 0): 256, (10, 0): 256, (10, 3): 256, (12, 0): 128},
}
"""KiB of first-level cache of a multiprocessor, by compute capability, where no shared memory is taken from it (CUDA
C++ Programming Guide). Those before keep no rows: they hold 24 to 48 KiB or do not cache loads at all."""
_L2_FOR_ROWS = 0.5
"""Share of a second level that rows find behind a first one that is too small for them: results pass through it, too.
No measured GPU has one that is large enough to tell; those of Ada have."""
_LANES_AT_BASE = 64
_L2_BYTES_PER_CLOCK = 64
"""Bytes that one multiprocessor draws from the second-level cache: the width of its port."""


class RateConstants(msgspec.Struct, frozen=True):
    """Share of its peak that a GPU sustains in float32 arithmetic, one for all.

    ``narrow`` and ``wide`` are the shares of the peak that the inner loop of a product can reach, by the lanes that
    one scheduler feeds. It issues one instruction per clock: where it feeds 16 lanes, a multiply-add occupies them
    for two clocks, and loads and addresses are issued in between; where it feeds 32, for one, and everything else
    that is issued takes its place: a sixth and more of what inner loops issue. ``paired`` is the share where it feeds
    32, but may issue a second instruction along with the first (Maxwell and Pascal): the P100's products reach 0.94 of
    the peak, its convolutions 0.79. All three are set, not fitted.

    The clock falls to what the board's power sustains over ``settles_us``: shorter kernels are done before.
    """

    narrow: float
    wide: float
    paired: float
    settles_us: float


@dataclass(frozen=True, slots=True)
class LearnedGpu:
    """One GPU in µs and bytes.

    ``lanes`` counts those of a multiprocessor in units of 64. ``flop_per_us`` is the stated peak in float32,
    ``issued_flop_per_us`` what the schedulers can issue at the stated clock, ``sustained_clock`` the share of it that
    the board's power sustains. ``bytes_per_us`` is the stated bandwidth, ``delivered_bytes_per_us`` less by what the
    first stacked memory does not deliver. ``warps_per_us`` are the instructions of a warp that all schedulers issue,
    ``threads`` those that the GPU holds. ``row_bytes`` are the caches that rows under way stay in: those of all
    multiprocessors, or the second level. ``maxwell_kernels`` is true where libraries have no others for products.
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
    """That of ``gpu``."""
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
