"""Selection of the batch sizes to display."""

from __future__ import annotations

from collections.abc import Iterable

_DOWN, _UP = 4, 8
"""Smallest and largest displayed size, as factors of the script's own size."""


def sizes_to_show(base: int, measured: Iterable[int], largest: int | None = None) -> tuple[int, ...]:
    """Powers of two and doublings of ``base``, from a quarter to eight times it, and all measured sizes.

    ``largest`` (such as the size of the data set) limits all but the base and the measured sizes.
    """
    lowest, highest = max(1, base // _DOWN), base * _UP
    wanted = {2**k for k in range(highest.bit_length() + 1)} | {base * 2**k for k in range(4)}
    wanted |= {base // 2, base // 4, base * 3 // 2}
    bound = highest if largest is None else min(highest, largest)
    return tuple(sorted({size for size in wanted if lowest <= size <= bound} | {base} | set(measured)))
