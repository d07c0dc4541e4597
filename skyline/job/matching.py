"""Which collective of one rank is which of another: both ran the same ones in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids, Indices, Times
from skyline.job.rank_work import RankWork

_ALIKE = frozenset({"all_reduce", "broadcast", "reduce"})
"""What every rank puts the same number of elements into."""
_FURTHEST = 2_000
"""Windows of recording that begin this many collectives apart are still put together."""
_CLOSE_US = 5.0
"""Ends of one collective on two ranks that differ by less tell nothing: GPUs' clocks are aligned to about this."""
_MUCH_BETTER = 10.0
"""So much better must ends agree under another shift to outweigh the numbers of steps and the counterparts."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCollectives:
    """One rank's collectives of one channel, in their order."""

    row: Ids
    """Row among the rank's exchanges."""
    kind: Indices
    """One number for each different kind and size, common to all ranks."""
    end_us: Times
    step: Indices
    """Number of the step in which it began; 0 for all where steps are not marked."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Match:
    """Row ``i`` of the first rank is row ``i + shift`` of the second."""

    shift: int
    first: int
    """The first row of the first rank that has a counterpart."""
    count: int
    residual_us: float
    """Median distance of the ends from one another, once the clocks' difference is taken off."""
    steps_apart: float
    """How many steps later the second rank counts them, by the median."""


def run_of(work: RankWork, rows: Ids, kinds: dict[tuple[str, int], int]) -> ChannelCollectives:
    """Some of a rank's collectives; ``kinds`` is a table that all ranks share, and grows."""
    exchanges = work.exchanges
    names = [exchanges.kinds[int(kind)] for kind in exchanges.kind[rows]]
    sizes = map(int, exchanges.elements[rows])
    pairs = ((name, size if name in _ALIKE else 0) for name, size in zip(names, sizes, strict=True))
    step = np.zeros(len(rows), np.int64)
    if work.marked:
        place = np.searchsorted(work.step_begin_us, exchanges.start_us[rows], side="right") - 1
        step = work.step_number[np.maximum(place, 0)].astype(np.int64)
    return ChannelCollectives(
        rows,
        np.fromiter((kinds.setdefault(pair, len(kinds)) for pair in pairs), np.int64, len(rows)),
        exchanges.end_us[rows],
        step,
    )


def match(one: ChannelCollectives, other: ChannelCollectives) -> Match | None:
    """Put two ranks' collectives of one channel together; None where no shift makes their kinds agree.

    Recording may have begun at another collective on each rank, and clocks cannot tell by how many: so every
    shift is tried under which all kinds agree. Under the right one the ends differ by the clocks' difference
    and little else, under a wrong one by what steps differ from one another. Where that is too little to
    tell, the numbers of the steps decide, and then how many collectives have a counterpart.
    """
    fewest = min(len(one), len(other))
    needed = max(1, fewest if fewest <= 3 else max(3, (fewest + 1) // 2))
    unshifted = _shifted(one, other, 0, needed)
    if (
        unshifted is not None
        and unshifted.count == fewest
        and unshifted.steps_apart == 0
        and unshifted.residual_us <= _CLOSE_US
    ):
        return unshifted  # what follows could not choose another
    furthest = min(_FURTHEST, max(len(one), len(other)))
    shifts = (_shifted(one, other, shift, needed) for shift in range(-furthest, furthest + 1))
    found = [shifted for shifted in shifts if shifted is not None]
    found.sort(key=lambda shifted: (abs(shifted.steps_apart), -shifted.count, abs(shifted.shift)))
    best = found[0] if found else None
    for shifted in found:
        if best is None or _MUCH_BETTER * shifted.residual_us + _CLOSE_US < best.residual_us:
            best = shifted
    return best


def _shifted(one: ChannelCollectives, other: ChannelCollectives, shift: int, needed: int) -> Match | None:
    first = max(0, -shift)
    count = min(len(one), len(other) - shift) - first
    if count < needed or one.kind[first] != other.kind[first + shift]:
        return None
    here, there = slice(first, first + count), slice(first + shift, first + shift + count)
    if not np.array_equal(one.kind[here], other.kind[there]):
        return None
    return Match(
        shift,
        first,
        count,
        _spread(one.end_us[here] - other.end_us[there]),
        float(np.median(other.step[there] - one.step[here])),
    )


def _spread(values: npt.NDArray[np.float64]) -> float:
    return float(np.median(np.abs(values - np.median(values))))
