"""Who is waited for: which rank arrives last, how often, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.job.alignment import Alignment
from skyline.job.waiting import CollectiveWaits

_STANDS_OUT = 0.5
"""Share of all lateness from which one rank is called the straggler."""
_MATTERS = 0.01
"""Share of the steps that its lateness must reach."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """One rank, over the collectives of the recording but for the first that it meets others in."""

    last: int
    """How often it arrived last, and not together with others."""
    of: int
    """In how many it took part with another recorded rank."""
    behind_us: float
    """How long after the middle one of the others it arrived, in sum over those in which it was last."""


def lateness(alignment: Alignment, split: CollectiveWaits) -> tuple[Lateness, ...]:
    """By rank."""
    counted = ~split.entry
    return tuple(
        Lateness(
            int(np.count_nonzero((split.last == place) & counted)),
            int(np.count_nonzero((alignment.instances.row[place] >= 0) & counted)),
            float(split.behind_us[(split.last == place) & counted].sum()),
        )
        for place in range(len(alignment.ranks))
    )


def straggler(alignment: Alignment, late: tuple[Lateness, ...]) -> int | None:
    """Place of the rank that most of the lateness comes from; None where no rank stands out."""
    if not late:
        return None
    whole = sum(one.behind_us for one in late)
    worst = max(range(len(late)), key=lambda place: late[place].behind_us)
    steps_us = alignment.ranks[worst].end_us - alignment.ranks[worst].begin_us
    matters = late[worst].behind_us >= _MATTERS * steps_us and whole > 0
    return worst if matters and late[worst].behind_us >= _STANDS_OUT * whole else None
