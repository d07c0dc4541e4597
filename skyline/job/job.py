"""A training job of several ranks: read, aligned, taken apart and run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skyline.graph.order import CyclicGraph
from skyline.job.alignment import Alignment, align
from skyline.job.members import Members, members
from skyline.job.rank_graph import RankGraph
from skyline.job.reading import RankTrace, Unread
from skyline.job.shares import Shares, shares
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


def typical(alignment: Alignment, split: CollectiveWaits, but: int) -> int | None:
    """Place of the middle one of the other ranks, by the time it spends waiting; None where there is no other."""
    waited = np.nansum(np.where(split.entry, 0.0, split.waiting_us), axis=1)
    others = sorted(
        (place for place in range(len(alignment.ranks)) if place != but), key=lambda at: waited[at]
    )
    # Of two in the middle the one that waits longer is the faster one: the gain is then no underestimate.
    return others[len(others) // 2] if others else None


def as_fast_as(
    alignment: Alignment, graphs: Sequence[RankGraph], place: int, model: int
) -> tuple[RankGraph, ...] | None:
    """The graphs with one rank doing its work as another one does, between the same collectives.

    It begins its recording when it did. None where the two do not take part in the same collectives, or did not
    record as many steps: then nothing says which work corresponds to which.
    """
    rows, model_rows = alignment.instances.row[place], alignment.instances.row[model]
    if not np.array_equal(rows >= 0, model_rows >= 0) or not (rows >= 0).any():
        return None
    if len(graphs[place].step_end) != len(graphs[model].step_end):
        return None
    shared = np.flatnonzero(rows >= 0)
    exchange = np.full(len(graphs[place].exchange), -1, np.int64)
    exchange[rows[shared]] = graphs[model].exchange[model_rows[shared]]
    changed = replace(graphs[model], exchange=exchange, begin_us=graphs[place].begin_us, pace=None)
    return tuple(changed if at == place else graph for at, graph in enumerate(graphs))


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
