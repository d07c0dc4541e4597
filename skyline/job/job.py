"""A training job of several ranks: read, aligned, analysed and simulated as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from skyline.errors import UsageError
from skyline.graph.dependency import CyclicGraph
from skyline.job.alignment import Alignment, align
from skyline.job.rank_graph import RankGraph
from skyline.job.rank_reader import RankTrace, Unread
from skyline.job.times import JobTimes, measured, simulated
from skyline.job.waiting import CollectiveWaits, Shares, shares, waiting
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Members:
    """The traces by rank, and notes on them."""

    traces: tuple[RankTrace, ...]
    world_size: int
    """0 if no trace says."""
    missing: tuple[int, ...]
    """Ranks of the job without a trace."""
    notes: tuple[str, ...]


def members(read: Iterable[RankTrace | Unread]) -> Members:
    """Combines traces into a job.

    Raises:
        UsageError: nothing could be read, or the traces are of jobs of different sizes.
    """
    found: list[RankTrace] = []
    notes: list[str] = []
    unread: list[Unread] = []
    for one in read:
        if isinstance(one, Unread):
            unread.append(one)
        else:
            found.append(one)
    if not found:
        raise UsageError(
            unread[0].reason if unread else "there is no trace",
            hint="Name a folder with one PyTorch profiler trace per rank (*.json or *.json.gz), or the files.",
        )
    notes += [f"{PurePath(one.file).name} was left out: {one.reason}." for one in unread]
    sizes = sorted({one.work.world_size for one in found} - {0})
    if len(sizes) > 1:
        raise UsageError(
            f"these are traces of different jobs: of {_listed(sizes)} ranks",
            hint="Name the files of one job, for example: skyline ranks run7/*.json.gz",
        )
    found = _numbered(found, notes)
    traces = tuple(_latest(same, notes) for _, same in sorted(_by_rank(found).items()))
    world_size = sizes[0] if sizes else 0
    there = {one.work.rank for one in traces}
    missing = tuple(rank for rank in range(world_size) if rank not in there)
    return Members(traces, world_size, missing, tuple(notes))


def _numbered(found: list[RankTrace], notes: list[str]) -> list[RankTrace]:
    """Gives ranks to traces without one: the free numbers, in the order of their files."""
    taken = {one.work.rank for one in found}
    unknown = sorted((one for one in found if one.work.rank < 0), key=lambda one: one.work.file)
    if not unknown:
        return found
    free = (rank for rank in range(len(found) + len(taken)) if rank not in taken)
    given = [replace(one, work=replace(one.work, rank=next(free))) for one in unknown]
    what = "One trace does not say its" if len(unknown) == 1 else f"{len(unknown)} traces do not say their"
    notes.append(f"{what} rank: numbered by the names of the files.")
    return [one for one in found if one.work.rank >= 0] + given


def _by_rank(found: list[RankTrace]) -> dict[int, list[RankTrace]]:
    ranks: defaultdict[int, list[RankTrace]] = defaultdict(list)
    for one in found:
        ranks[one.work.rank].append(one)
    return ranks


def _latest(same: list[RankTrace], notes: list[str]) -> RankTrace:
    latest = max(same, key=lambda one: (one.work.base_ns, one.work.file))
    if len(same) > 1:
        name = PurePath(latest.work.file).name
        notes.append(f"rank {latest.work.rank} has {len(same)} traces: {name}, the latest, is used.")
    return latest


def _listed(numbers: list[int]) -> str:
    texts = [str(number) for number in numbers]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


@dataclass(frozen=True, slots=True, eq=False)
class Evened:
    """The job with its straggler as fast as another rank."""

    straggler: int
    """The place of the straggler among the ranks."""
    model: int
    """The place of the rank whose speed it gets."""
    times: JobTimes


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """All that is known of a job's ranks; data per rank is in the order of the ranks."""

    members: Members
    alignment: Alignment
    split: CollectiveWaits
    graphs: tuple[RankGraph, ...]
    shares: tuple[Shares, ...]
    late: tuple[Lateness, ...]
    straggler: int | None
    """The place of the rank that the others wait for. None if no rank stands out."""
    measured: JobTimes
    simulated: JobTimes | None
    """None if ranks ran collectives of different channels in contradictory orders."""
    evened: Evened | None
    """None if no rank stands out, or the others do different work."""
    changed: JobTimes | None
    """The times under the what-if that was applied to the traces. None without one."""

    @property
    def replay_error(self) -> float | None:
        """The relative difference between the simulated and the measured time of the whole recording."""
        whole = self.measured.whole_us
        if self.simulated is None:
            return None
        return abs(self.simulated.whole_us - whole) / whole if whole > 0 else 0.0

    @property
    def entry_us(self) -> float:
        """The longest wait of a rank at its first collective with other ranks."""
        waited = self.split.waiting_us[:, self.split.entry]
        return float(np.nanmax(waited)) if waited.size else 0.0


def job_of(read: Iterable[RankTrace | Unread]) -> Job:
    """The job of these ranks.

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
    """The simulated times. None for contradictory orders: a broadcast ends for its root before others arrive."""
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
    """The place of the rank with the median waiting time among the others. None if there is no other."""
    waited = np.nansum(np.where(split.entry, 0.0, split.waiting_us), axis=1)
    others = sorted(
        (place for place in range(len(alignment.ranks)) if place != but), key=lambda at: waited[at]
    )
    # Of the two in the middle, the one that waits longer is faster, so the gain is not underestimated.
    return others[len(others) // 2] if others else None


def as_fast_as(
    alignment: Alignment, graphs: Sequence[RankGraph], place: int, model: int
) -> tuple[RankGraph, ...] | None:
    """The graphs with one rank working as fast as another one between the same collectives.

    The start of its recording stays. None if the two do not take part in the same collectives, or recorded
    different numbers of steps: then their work cannot be matched.
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
"""The share of all lateness from which one rank is called the straggler."""
_MATTERS = 0.01
"""The share of the steps that its lateness must reach."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """One rank, over the collectives of the recording except the first one with other ranks."""

    last: int
    """The number of collectives at which only this rank arrived last."""
    of: int
    """The number of collectives that it shared with another recorded rank."""
    behind_us: float
    """The delay relative to the median of the others, summed over the collectives at which it was last."""


def lateness(alignment: Alignment, split: CollectiveWaits) -> tuple[Lateness, ...]:
    """The lateness of each rank."""
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
    """The place of the rank that causes most of the lateness. None if no rank stands out."""
    if not late:
        return None
    whole = sum(one.behind_us for one in late)
    worst = max(range(len(late)), key=lambda place: late[place].behind_us)
    steps_us = alignment.ranks[worst].end_us - alignment.ranks[worst].begin_us
    matters = late[worst].behind_us >= _MATTERS * steps_us and whole > 0
    return worst if matters and late[worst].behind_us >= _STANDS_OUT * whole else None
