"""Times of single products in other formats and on other threads, measured where the script runs."""

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
"""The operators that are tried."""


@dataclass(frozen=True, slots=True)
class TriedTimes:
    """One pass of a product in µs: in float32 and in 16 bits, on the script's threads and on others.

    Casts between the formats are not included. 0 where it was not tried.
    """

    wide_us: float = 0.0
    narrow_us: float = 0.0
    wide_otherwise_us: float = 0.0
    narrow_otherwise_us: float = 0.0

    @property
    def narrowing(self) -> float:
        """Time in 16 bits over that in float32, on the script's threads; 0 where it was not tried."""
        return self.narrow_us / self.wide_us if self.wide_us else 0.0


@dataclass(frozen=True, slots=True)
class ProductTrial:
    """One operator on tensors of the sizes that the script calls it with.

    ``elements`` is the number of elements of the result, by which its backward work is recognized. ``threads`` is the
    script's own number, ``other_threads`` that of the ``otherwise`` times; they are equal where no other was tried.
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
        """The part of the time on one thread that threads divide (Amdahl, 1967); None if it was not tried.

        0 where more threads take longer.
        """
        here = times.narrow_us if narrow else times.wide_us
        there = times.narrow_otherwise_us if narrow else times.wide_otherwise_us
        if not here or not there or self.threads == self.other_threads:
            return None
        return min(1.0, max(0.0, divided_part(here / there, self.threads, self.other_threads)))


def divided_part(ratio: float, threads: int, other_threads: int) -> float:
    """The part of the time on one thread that threads divide (Amdahl, 1967, solved for the part).

    ``ratio`` is the time on ``threads`` over that on ``other_threads``. The part is below 0 where more threads take
    longer, and above 1 where they gain more than their number, because each has caches of its own.
    """
    return (1 - ratio) / ((1 - 1 / threads) - ratio * (1 - 1 / other_threads))
