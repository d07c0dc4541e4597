"""The cause of a step between two points, as far as their figures show one."""

from __future__ import annotations

from skyline import units
from skyline.source.number_place import Number
from skyline.sweep.point import SweepPoint
from skyline.sweep.work import IterationWork

_LESS = 0.02
"""The least relative fall of a share of tiles or waves that counts as a cause."""
_LESS_ALIGNED = 0.15
_MORE_OPERATORS = 0.1
_MULTIPLES = (8, 16, 32, 64, 128, 256)
"""Sides of tiles, and the eight 16-bit numbers that kernels load at a time."""


def cause(before: SweepPoint, after: SweepPoint, low: Number, high: Number) -> str:
    """The difference between two neighbouring points at ``low`` and ``high``, in words; empty if none is known."""
    if before.work is None or after.work is None:
        return ""
    one, other = before.work, after.work
    multiple = _lost_multiple(one, other, low, high)
    found: list[str] = []
    if _falls(one.aligned_share, other.aligned_share, _LESS_ALIGNED):
        found.append(
            f"rows are multiples of 16 bytes in {_share(other.aligned_share)} of the arithmetic instead of "
            f"{_share(one.aligned_share)}"
        )
    if _falls(one.tile_share, other.tile_share, _LESS):
        found.append(
            f"results fill {_share(other.tile_share)} of their tiles instead of {_share(one.tile_share)}"
        )
    if _falls(one.wave_share, other.wave_share, _LESS):
        found.append(
            f"waves of tiles keep the multiprocessors busy for {_share(other.wave_share)} of the time instead of "
            f"{_share(one.wave_share)}"
        )
    if not found and other.operators > one.operators * (1 + _MORE_OPERATORS):
        found.append(f"{other.operators:,} operators run instead of {one.operators:,}")
    said = " and ".join(found)
    if multiple and said:
        return f"{high} is not a multiple of {multiple}, and {said}"
    if multiple:
        return f"the cause is not known; {high} is not a multiple of {multiple}, and {low} is"
    return said


def _lost_multiple(one: IterationWork, other: IterationWork, low: Number, high: Number) -> int:
    """The least number that divides the lower value and not the higher one, if both are sizes of operands; else 0."""
    if (
        not isinstance(low, int)
        or not isinstance(high, int)
        or low not in one.sizes
        or high not in other.sizes
    ):
        return 0
    return next((number for number in _MULTIPLES if low % number == 0 and high % number), 0)


def _falls(before: float | None, after: float | None, least: float) -> bool:
    return before is not None and after is not None and after < before * (1 - least)


def _share(share: float | None) -> str:
    return units.format_share(share or 0.0)
