"""The ends of a job's steps on every rank, measured and simulated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.job.alignment import Alignment
from skyline.job.job_graph import joined
from skyline.job.rank_graph import RankGraph
from skyline.job.waiting import CollectiveWaits
from skyline.lazy_dataclass import dataclass
from skyline.simulate.engine import simulate


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """For each rank the ends of the steps that all ranks recorded, in µs on the common clock."""

    begin_us: float
    """The beginning of the first rank's first step."""
    ends_us: tuple[Times, ...]
    together: bool = True
    """True if all ranks are on one clock; else each is only compared with itself."""

    @property
    def whole_us(self) -> float:
        """The time from the first rank's beginning to the last one's end."""
        return max(float(ends[-1]) for ends in self.ends_us) - self.begin_us

    @property
    def step_us(self) -> float:
        """The time of one step, in the steady state if there are several; it ends when it ends on all ranks.

        If ranks are on clocks of their own, it is the step of the slowest.
        """
        over = np.stack(self.ends_us)
        if over.shape[1] < 2:
            return self.whole_us
        if self.together:
            over = np.max(over, axis=0, keepdims=True)
        return float((over[:, -1] - over[:, 0]).max()) / (over.shape[1] - 1)


def measured(alignment: Alignment) -> JobTimes:
    """The times in the traces."""
    begin = min(
        one.begin_us + float(shift) for one, shift in zip(alignment.ranks, alignment.shift_us, strict=True)
    )
    chosen = _common(alignment)
    return JobTimes(
        begin,
        tuple(
            one.step_end_us[steps] + shift
            for one, steps, shift in zip(alignment.ranks, chosen, alignment.shift_us, strict=True)
        ),
        alignment.together,
    )


def simulated(alignment: Alignment, split: CollectiveWaits, graphs: Sequence[RankGraph]) -> JobTimes:
    """The times from a simulation of all ranks together.

    Raises:
        CyclicGraph: ranks ran collectives of different channels in contradictory orders.
    """
    job = joined(alignment, split, graphs)
    starts = simulate(job.graph).starts + job.begin_us
    chosen = _common(alignment)
    ends = tuple(starts[tasks[steps]] for tasks, steps in zip(job.step_end, chosen, strict=True))
    return JobTimes(measured(alignment).begin_us, ends, alignment.together)


def _common(alignment: Alignment) -> list[Indices]:
    """For each rank the indices of the steps that all ranks have, by their numbers; else the first common ones."""
    numbers = [one.step_number for one in alignment.ranks]
    shared = numbers[0]
    for other in numbers[1:]:
        shared = np.intersect1d(shared, other)
    if len(shared) and all(len(np.unique(mine)) == len(mine) for mine in numbers):
        return [np.flatnonzero(np.isin(mine, shared)) for mine in numbers]
    fewest = min(map(len, numbers))
    return [np.arange(fewest) for _ in numbers]
