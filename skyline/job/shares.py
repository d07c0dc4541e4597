"""The time of each rank's steps by kind of work."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.column import Times
from skyline.graph.spans import merged
from skyline.job.alignment import Alignment
from skyline.job.rank_work import RankWork
from skyline.job.waiting import CollectiveWaits


@dataclass(frozen=True, slots=True)
class Shares:
    """µs of a rank's steps, each moment counted once: computing before moving data before waiting.

    ``compute``, ``transfer``, ``waiting`` and ``rest`` sum to the steps; ``overlapped`` is what collectives,
    waiting included, took of the time that was computed in.
    """

    compute_us: float
    transfer_us: float
    waiting_us: float
    """For other ranks, with nothing computed meanwhile."""
    rest_us: float
    """Neither: the host prepares work, data are loaded, another thing is waited for."""
    overlapped_us: float


def shares(alignment: Alignment, split: CollectiveWaits) -> tuple[Shares, ...]:
    """By rank."""
    return tuple(
        _shares(one, _arrivals(alignment, split, place)) for place, one in enumerate(alignment.ranks)
    )


def _arrivals(alignment: Alignment, split: CollectiveWaits, place: int) -> Times:
    """For each of a rank's exchanges when its waiting ended; at its start where no other rank recorded it."""
    exchanges = alignment.ranks[place].exchanges
    arrived = exchanges.start_us.copy()
    rows = alignment.instances.row[place]
    mine = rows >= 0
    arrived[rows[mine]] += split.waiting_us[place, mine]
    return arrived


def _shares(one: RankWork, arrived: Times) -> Shares:
    window = (one.begin_us, one.end_us)
    start, end = one.exchanges.start_us, one.exchanges.end_us
    beside = one.computing.cut(*window)
    moving = merged(arrived, end).cut(*window)
    waiting = merged(start, arrived).cut(*window)
    with_moving = beside.together(moving)
    all_of_it = with_moving.together(waiting)
    transfer = with_moving.total_us - beside.total_us
    waited = all_of_it.total_us - with_moving.total_us
    return Shares(
        one.compute_us,
        transfer,
        waited,
        max(0.0, window[1] - window[0] - one.compute_us - transfer - waited),
        beside.total_us,
    )
