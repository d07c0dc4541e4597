"""The order of strategies: by time or cost; among equally good ones, those that Skyline writes come first."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

EQUAL = 0.005
"""The largest relative difference of equally good strategies: 1/6 of the planner's mean error on published runs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The facts that decide the place of a strategy."""

    objection: bool
    """True if the strategy misses the budget or the deadline; it comes after all others."""
    cost: Interval
    """The time per unit or the money, with its range; the lowest comes first."""
    written: bool
    """True if Skyline writes its code."""
    group: int = 0
    """Strategies of different groups are never equally good."""


def ordered(standings: Sequence[Standing]) -> list[int]:
    """The indices of the strategies, best first.

    A strategy that Skyline writes comes before equally good strategies that it does not write. Otherwise,
    equal strategies keep their order.
    """
    ranked = sorted(range(len(standings)), key=lambda at: (standings[at].objection, standings[at].cost.value))
    found: list[int] = []
    last_written = -1
    for at in ranked:
        place = len(found)
        if standings[at].written:
            equal = (
                before
                for before in range(last_written + 1, len(found))
                if equally_good(standings[found[before]], standings[at])
            )
            place = last_written = next(equal, place)
        found.insert(place, at)
    return found


def equally_good(one: Standing, other: Standing) -> bool:
    """True if each value lies inside the range of the other, and they differ by at most half a per cent."""
    if (one.objection, one.group) != (other.objection, other.group):
        return False
    mine, theirs = one.cost, other.cost
    near = abs(mine.value - theirs.value) <= EQUAL * min(mine.value, theirs.value)
    return near and mine.low <= theirs.value <= mine.high and theirs.low <= mine.value <= theirs.high
