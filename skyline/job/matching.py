"""Which collective of one rank is which of another: both ran the same ones in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids, Times
from skyline.job.exchanges import Exchanges

_ALIKE = frozenset({"all_reduce", "broadcast", "reduce"})
"""What every rank puts the same number of elements into."""
_FURTHEST = 2_000
"""Windows of recording that begin this many collectives apart are still put together."""
_CLOSE_US = 5.0
"""Ends of one collective on two ranks that differ by less tell nothing: GPUs' clocks are aligned to about this."""


@dataclass(frozen=True, slots=True)
class Match:
    """Row ``i`` of the first rank is row ``i + shift`` of the second."""

    shift: int
    first: int
    """The first row of the first rank that has a counterpart."""
    count: int
    residual_us: float
    """Median distance of the ends from one another, once the clocks' difference is taken off."""
    behind_us: float
    """What is to be added to the second rank's times to make the ends meet."""


def match(
    kinds: npt.NDArray[np.int64], ends_us: Times, other_kinds: npt.NDArray[np.int64], other_ends_us: Times
) -> Match | None:
    """Put two ranks' collectives of one channel together; None where no shift makes their kinds agree.

    Recording may have begun at another collective on each rank, and clocks cannot tell by how many: so every
    shift is tried under which all kinds agree. Under the right one the ends differ by the clocks' difference
    and little else. Of shifts that do about as well the one with most counterparts is taken.
    """
    fewest = min(len(ends_us), len(other_ends_us))
    needed = max(1, fewest if fewest <= 3 else max(3, (fewest + 1) // 2))
    unshifted = _shifted(kinds, ends_us, other_kinds, other_ends_us, 0, needed)
    if unshifted is not None and unshifted.count == fewest and unshifted.residual_us <= _CLOSE_US:
        return unshifted  # what follows could not choose another
    furthest = min(_FURTHEST, max(len(ends_us), len(other_ends_us)))
    shifts = (
        _shifted(kinds, ends_us, other_kinds, other_ends_us, shift, needed)
        for shift in range(-furthest, furthest + 1)
    )
    found = [one for one in shifts if one is not None]
    if not found:
        return None
    best = min(one.residual_us for one in found)
    good = [one for one in found if one.residual_us <= max(2 * best, best + _CLOSE_US)]
    return max(good, key=lambda one: (one.count, -abs(one.shift)))


def _shifted(
    kinds: npt.NDArray[np.int64],
    ends_us: Times,
    other_kinds: npt.NDArray[np.int64],
    other_ends_us: Times,
    shift: int,
    needed: int,
) -> Match | None:
    first = max(0, -shift)
    count = min(len(ends_us), len(other_ends_us) - shift) - first
    if count < needed or kinds[first] != other_kinds[first + shift]:
        return None
    here, there = slice(first, first + count), slice(first + shift, first + shift + count)
    if not np.array_equal(kinds[here], other_kinds[there]):
        return None
    apart = ends_us[here] - other_ends_us[there]
    behind = float(np.median(apart))
    return Match(shift, first, count, float(np.median(np.abs(apart - behind))), behind)


def keys(table: dict[tuple[str, int], int], exchanges: Exchanges, rows: Ids) -> npt.NDArray[np.int64]:
    """One number for each different kind and size, common to all ranks that use the same table."""
    kinds = [exchanges.kinds[int(kind)] for kind in exchanges.kind[rows]]
    sizes = map(int, exchanges.elements[rows])
    pairs = ((kind, size if kind in _ALIKE else 0) for kind, size in zip(kinds, sizes, strict=True))
    return np.fromiter((table.setdefault(pair, len(table)) for pair in pairs), np.int64, len(rows))
