"""Times of single matrix products in other formats and with other thread counts, measured on the script's machine."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCTS = (
    "aten::linear",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::matmul",
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::scaled_dot_product_attention",
)
"""The operators of the trials."""


@dataclass(frozen=True, slots=True)
class TriedTimes:
    """Time of one pass of a product, in µs: in float32 and in 16 bits, with the script's threads and with others.

    Casts between the formats are not included. 0 if not tried.
    """

    wide_us: float = 0.0
    narrow_us: float = 0.0
    wide_otherwise_us: float = 0.0
    narrow_otherwise_us: float = 0.0

    @property
    def narrowing(self) -> float:
        """Time in 16 bits over time in float32, with the script's threads; 0 if not tried."""
        return self.narrow_us / self.wide_us if self.wide_us else 0.0


@dataclass(frozen=True, slots=True)
class ProductTrial:
    """One operator on tensors of the sizes in the script.

    ``elements`` is the number of elements of the result, which identifies the backward work. ``threads`` is the
    script's number, ``other_threads`` that of the ``otherwise`` times; they are equal if no other number was tried.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    number_format: str
    forward: TriedTimes
    backward: TriedTimes
    elements: int
    flops: int = 0
    threads: int = 1
    other_threads: int = 1

    def divided_part(self, times: TriedTimes, *, narrow: bool) -> float | None:
        """The parallel share of the single-thread time (Amdahl, 1967); None if not tried.

        0 if more threads take longer.
        """
        here = times.narrow_us if narrow else times.wide_us
        there = times.narrow_otherwise_us if narrow else times.wide_otherwise_us
        if not here or not there or self.threads == self.other_threads:
            return None
        return min(1.0, max(0.0, divided_part(here / there, self.threads, self.other_threads)))


def divided_part(ratio: float, threads: int, other_threads: int) -> float:
    """The parallel share of the single-thread time (Amdahl, 1967, solved for the share).

    ``ratio`` is the time with ``threads`` over the time with ``other_threads``. The share is below 0 if more threads
    take longer, and above 1 for superlinear gains, because each core has its own caches.
    """
    return (1 - ratio) / ((1 - 1 / threads) - ratio * (1 - 1 / other_threads))
