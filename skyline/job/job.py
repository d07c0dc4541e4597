"""A training job of several ranks: read, aligned, taken apart and run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from skyline.graph.order import CyclicGraph
from skyline.job.alignment import Alignment, align
from skyline.job.evening import as_fast_as, typical
from skyline.job.members import Members, members
from skyline.job.rank_graph import RankGraph
from skyline.job.reading import RankTrace, Unread
from skyline.job.shares import Shares, shares
from skyline.job.straggler import Lateness, lateness, straggler
from skyline.job.times import JobTimes, measured, simulated
from skyline.job.waiting import CollectiveWaits, waiting


@dataclass(frozen=True, slots=True, eq=False)
class Evened:
    """The job with its straggler as fast as another rank."""

    straggler: int
    """Place among the ranks."""
    model: int
    """Place of the rank that it does its work as fast as."""
    times: JobTimes


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """All that is known of the ranks of a job; what is per rank stands in the order of the ranks."""

    members: Members
    alignment: Alignment
    split: CollectiveWaits
    graphs: tuple[RankGraph, ...]
    shares: tuple[Shares, ...]
    late: tuple[Lateness, ...]
    straggler: int | None
    """Place of the rank that the others wait for; None where none stands out."""
    measured: JobTimes
    simulated: JobTimes | None
    """None where ranks ran collectives of different channels in contradictory orders."""
    evened: Evened | None
    """None where no rank stands out, or the others do other work."""
    changed: JobTimes | None
    """Under the what-if that the traces were read with; None without one."""

    @property
    def replay_error(self) -> float | None:
        """How far the simulated time of the whole recording is from the measured one, as a share of that."""
        whole = self.measured.whole_us
        if self.simulated is None:
            return None
        return abs(self.simulated.whole_us - whole) / whole if whole > 0 else 0.0

    @property
    def entry_us(self) -> float:
        """The longest that a rank waited at the first collective that it met others in."""
        waited = self.split.waiting_us[:, self.split.entry]
        return float(np.nanmax(waited)) if waited.size else 0.0


def job_of(read: Iterable[RankTrace | Unread]) -> Job:
    """Work out the job from its ranks.

    Raises:
        UsageError: nothing could be read, or the traces are of jobs of different sizes.
    """
    found = members(read)
    alignment = align([one.work for one in found.traces])
    graphs = tuple(one.graph for one in found.traces)
    split = waiting(alignment)
    late = lateness(alignment, split)
    worst = straggler(alignment, late)
    return Job(
        found,
        alignment,
        split,
        graphs,
        shares(alignment, split),
        late,
        worst,
        measured(alignment),
        _simulated(alignment, split, graphs),
        None if worst is None else _evened(alignment, split, graphs, worst),
        _changed(alignment, split, found),
    )


def _simulated(alignment: Alignment, split: CollectiveWaits, graphs: Sequence[RankGraph]) -> JobTimes | None:
    """A broadcast is over for its root before others arrive: so orders of channels may contradict one another."""
    try:
        return simulated(alignment, split, graphs)
    except CyclicGraph:
        return None


def _changed(alignment: Alignment, split: CollectiveWaits, found: Members) -> JobTimes | None:
    if all(one.changed is None for one in found.traces):
        return None
    return _simulated(alignment, split, [one.changed or one.graph for one in found.traces])


def _evened(
    alignment: Alignment, split: CollectiveWaits, graphs: tuple[RankGraph, ...], worst: int
) -> Evened | None:
    model = typical(alignment, split, worst)
    if model is None:
        return None
    changed = as_fast_as(alignment, graphs, worst, model)
    times = None if changed is None else _simulated(alignment, split, changed)
    return None if times is None else Evened(worst, model, times)
