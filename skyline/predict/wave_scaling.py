"""Carries the time of a kernel over from the GPU on which it was measured to another one.

After Yu, Gao, Golikov and Pekhimenko, "Habitat: A Runtime-Based Computational Performance Predictor for Deep Neural
Network Training" (USENIX ATC 2021), §3.3: a kernel runs in waves of thread blocks; each takes as long as its memory
traffic or its arithmetic, in a mixture that the kernel's arithmetic intensity decides. Where Habitat compares clocks,
the peaks of one multiprocessor in the kernel's number format are compared here: they tell more where the number of
arithmetic units differs between generations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Rates:
    """What one GPU can do at kernels of one number format."""

    bandwidth_gb_s: float
    tflops: float
    multiprocessors: int

    @property
    def ridge(self) -> float:
        """The flop per byte above which arithmetic takes longer than memory."""
        return self.tflops * 1e3 / self.bandwidth_gb_s


def share_of_memory(flop_per_byte: float, ridge: float) -> float:
    """How far memory decides the time, from 1 (no arithmetic) by 0.5 at the ridge towards 0: Habitat's gamma."""
    if flop_per_byte <= ridge:
        return 1.0 - 0.5 * flop_per_byte / ridge
    return 0.5 * ridge / flop_per_byte


def carried_factor(
    origin: Rates, destination: Rates, memory_share: float, *, blocks: float = 0.0, resident: float = 1.0
) -> float:
    """The time on ``destination`` over that on ``origin``.

    ``memory_share`` is as ``share_of_memory`` gives it for the destination. ``blocks`` is how many thread blocks the
    kernel has, ``resident`` how many of them a multiprocessor works on together; without ``blocks`` it is taken to have
    so many that the last wave does not count.
    """
    wave_ratio = destination.multiprocessors / origin.multiprocessors
    waves = 1 / wave_ratio
    if blocks > 0:
        waves = ceil(blocks / (resident * destination.multiprocessors)) / ceil(
            blocks / (resident * origin.multiprocessors)
        )
    # Of one wave: the blocks share the bandwidth, each multiprocessor computes by itself.
    memory = origin.bandwidth_gb_s / destination.bandwidth_gb_s * wave_ratio
    compute = (origin.tflops / origin.multiprocessors) / (destination.tflops / destination.multiprocessors)
    if blocks > 0 and waves == 1:
        # Neither GPU is full: the blocks on the larger one get no less bandwidth than there is for them.
        memory = origin.bandwidth_gb_s / destination.bandwidth_gb_s
    return waves * memory**memory_share * compute ** (1 - memory_share)
