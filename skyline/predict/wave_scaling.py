"""Scaling of a kernel's time from the GPU on which it was measured to another one.

After Yu, Gao, Golikov and Pekhimenko, "Habitat: A Runtime-Based Computational Performance Predictor for Deep Neural
Network Training" (USENIX ATC 2021), §3.3. A kernel runs in waves of thread blocks. The time of a wave depends on memory
traffic and arithmetic, weighted by the kernel's arithmetic intensity. Habitat compares clocks; here the peaks of one
multiprocessor in the kernel's number format are compared. They are more accurate if the number of arithmetic units
differs between generations.
"""

from __future__ import annotations

from functools import cache
from math import ceil

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.registry import across_formats
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one GPU for kernels of one number format."""

    bandwidth_gb_s: float
    tflops: float
    multiprocessors: int

    @property
    def ridge(self) -> float:
        """The flop per byte above which arithmetic takes longer than memory."""
        return self.tflops * 1e3 / self.bandwidth_gb_s


def share_of_memory(flop_per_byte: float, ridge: float) -> float:
    """The weight of memory in the time: 1 without arithmetic, 0.5 at the ridge, towards 0 beyond (Habitat's gamma)."""
    if flop_per_byte <= ridge:
        return 1.0 - 0.5 * flop_per_byte / ridge
    return 0.5 * ridge / flop_per_byte


def carried_factor(
    origin: Rates, destination: Rates, memory_share: float, *, blocks: float = 0.0, resident: float = 1.0
) -> float:
    """The time on ``destination`` relative to the time on ``origin``.

    ``memory_share`` is the result of ``share_of_memory`` for the destination. ``blocks`` is the number of the kernel's
    thread blocks, ``resident`` the number of blocks that a multiprocessor runs concurrently. Without ``blocks``, the
    number is assumed so large that the last wave is negligible.
    """
    wave_ratio = destination.multiprocessors / origin.multiprocessors
    waves = 1 / wave_ratio
    if blocks > 0:
        waves = ceil(blocks / (resident * destination.multiprocessors)) / ceil(
            blocks / (resident * origin.multiprocessors)
        )
    # Times of one wave: the blocks share the bandwidth, but each multiprocessor computes separately.
    memory = origin.bandwidth_gb_s / destination.bandwidth_gb_s * wave_ratio
    compute = (origin.tflops / origin.multiprocessors) / (destination.tflops / destination.multiprocessors)
    if blocks > 0 and waves == 1:
        # Neither GPU is full: blocks on the larger one get at most the available bandwidth.
        memory = origin.bandwidth_gb_s / destination.bandwidth_gb_s
    return waves * memory**memory_share * compute ** (1 - memory_share)


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
