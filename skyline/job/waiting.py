"""Splits each collective's time into waiting and moving data, and each rank's steps by kind of work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids, Times
from skyline.graph.spans import merged
from skyline.job.alignment import Alignment, own_times
from skyline.job.rank_work import RankWork
from skyline.lazy_dataclass import dataclass

_TOGETHER_US = 5.0
"""Ranks that arrive within this time, and within the clocks' uncertainty, count as arriving together."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveWaits:
    """The collectives that several ranks recorded, by the columns of ``Alignment.instances``."""

    transfer_us: Times
    """The duration after the last arrival: the shortest time that any of the ranks spent in it. If not all
    ranks were recorded, this is an upper bound, since another rank may have arrived later still."""
    waiting_us: npt.NDArray[np.float64]
    """``[rank, instance]``: the rest of the time that the rank spent in it; NaN if it took no part."""
    last: Ids
    """The place of the rank that arrived last; -1 if they arrived together."""
    behind_us: Times
    """The delay relative to the median arrival of the others; 0 if they arrived together."""
    entry: npt.NDArray[np.bool_]
    """True for the first collective of all its ranks: the waiting there shows when recording began."""


def waiting(alignment: Alignment) -> CollectiveWaits:
    """Splits the time of each collective. No clock is needed, since durations are compared, not times.

    A collective ends for all ranks at once, so the rank that spent the least time in it came last and did not
    wait.
    """
    row = alignment.instances.row
    took = own_times([one.exchanges.end_us - one.exchanges.start_us for one in alignment.ranks], row)
    count = row.shape[1]
    if not count:
        none = np.empty(0)
        return CollectiveWaits(none, np.empty(row.shape), none.astype(np.int32), none, none.astype(np.bool_))
    transfer = np.nanmin(took, axis=0)
    waited = took - transfer
    last = np.nanargmin(took, axis=0).astype(np.int32)
    others = waited.copy()
    others[last, np.arange(count)] = np.nan
    behind = np.nanmedian(others, axis=0)
    unsure = np.where(row >= 0, np.nan_to_num(alignment.residual_us)[:, None], 0.0).max(axis=0)
    together = behind <= np.maximum(_TOGETHER_US, 2 * unsure)
    return CollectiveWaits(
        transfer,
        waited,
        np.where(together, -1, last).astype(np.int32),
        np.where(together, 0.0, behind),
        _entries(row),
    )


def _entries(row: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """True for collectives before which none of their ranks had met any other."""
    met = np.zeros(row.shape[0], np.bool_)
    first = np.zeros(row.shape[1], np.bool_)
    for at in range(row.shape[1]):
        members = row[:, at] >= 0
        first[at] = not met[members].all()
        met |= members
    return first


@dataclass(frozen=True, slots=True)
class Shares:
    """µs of a rank's steps, with each moment counted once: computing before moving data before waiting.

    ``compute``, ``transfer``, ``waiting`` and ``rest`` sum to the steps. ``overlapped`` is the part of the
    computing time in which collectives ran or waited.
    """

    compute_us: float
    transfer_us: float
    waiting_us: float
    """The time of waiting for other ranks while nothing is computed."""
    rest_us: float
    """The remaining time: the host prepares work, data is loaded, or something else delays the rank."""
    overlapped_us: float


def shares(alignment: Alignment, split: CollectiveWaits) -> tuple[Shares, ...]:
    """The shares of each rank."""
    return tuple(
        _shares(one, _arrivals(alignment, split, place)) for place, one in enumerate(alignment.ranks)
    )


def _arrivals(alignment: Alignment, split: CollectiveWaits, place: int) -> Times:
    """The end of waiting for each of a rank's exchanges; its start if no other rank recorded it."""
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
