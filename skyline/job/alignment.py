"""Puts the ranks of a job on one clock, by the collectives that they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids, Indices, Times
from skyline.job.exchanges import POINT_TO_POINT, Exchanges
from skyline.job.rank_work import RankWork
from skyline.lazy_dataclass import dataclass

_ALIKE = frozenset({"all_reduce", "broadcast", "reduce"})
"""Collectives to which every rank contributes the same number of elements."""
_FURTHEST = 2_000
"""The largest number of collectives by which the starts of two recordings may differ and still be matched."""
_CLOSE_US = 5.0
"""The accuracy of GPU clocks: a smaller difference between the ends of a collective on two ranks is no evidence."""
_MUCH_BETTER = 10.0
"""The factor by which the ends must agree better under a shift to outweigh step numbers and counterparts."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelCollectives:
    """One rank's collectives of one channel, in order."""

    row: Ids
    """The row among the rank's exchanges."""
    kind: Indices
    """One number for each different kind and size, common to all ranks."""
    end_us: Times
    step: Indices
    """The number of the step in which it began; 0 for all if steps are not marked."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Match:
    """Row ``i`` of the first rank corresponds to row ``i + shift`` of the second."""

    shift: int
    first: int
    """The first row of the first rank that has a counterpart."""
    count: int
    residual_us: float
    """The median distance between the ends, after the clocks' difference is subtracted."""
    steps_apart: float
    """The median number of steps by which the second rank counts them later."""


def run_of(work: RankWork, rows: Ids, kinds: dict[tuple[str, int], int]) -> ChannelCollectives:
    """Some of a rank's collectives; ``kinds`` is a table that all ranks share and extend."""
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
    """Matches two ranks' collectives of one channel; None if no shift makes their kinds agree.

    Each rank's recording may begin at another collective, and clocks cannot show by how many. So every shift
    is tried under which all kinds agree. Under the right shift, the ends differ by little more than the
    clocks' difference; under a wrong one, by the differences between steps. If these are too small, the
    numbers of the steps decide, and then the number of collectives with a counterpart.
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
        return unshifted  # the search below could not choose another one
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


_ROUNDS = 4
"""The number of rounds of taking medians; after the second, only rounding errors change."""


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """A row per collective that at least two of the ranks recorded, by its end on the common clock."""

    kind: tuple[str, ...]
    channel: tuple[str, ...]
    row: npt.NDArray[np.int32]
    """``row[rank, instance]``: the row among the rank's exchanges, -1 if that rank has none."""

    def __len__(self) -> int:
        return self.row.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """``shift_us[rank]``, added to a rank's own times, gives times on the clock of the first rank's trace."""

    ranks: tuple[RankWork, ...]
    instances: Instances
    shift_us: Times
    residual_us: Times
    """By rank, the median distance of its ends of collectives from the common ends; NaN without any."""
    clock_us: Times
    """The lead of each rank's clock over the first rank's; NaN without common collectives."""
    alone: tuple[str, ...]
    """Channels whose collectives do not agree between ranks, or that only one rank has."""

    @property
    def together(self) -> bool:
        """True if all ranks are on one clock."""
        return len(self.ranks) == 1 or not bool(np.isnan(self.clock_us).any())

    @property
    def start_us(self) -> npt.NDArray[np.float64]:
        """``[rank, instance]`` on the common clock, NaN if that rank has none."""
        return self._times([one.exchanges.start_us for one in self.ranks])

    @property
    def end_us(self) -> npt.NDArray[np.float64]:
        """``[rank, instance]`` on the common clock, NaN if that rank has none."""
        return self._times([one.exchanges.end_us for one in self.ranks])

    def _times(self, columns: list[Times]) -> npt.NDArray[np.float64]:
        times = own_times(columns, self.instances.row)
        return times + self.shift_us[:, None]


def align(ranks: Sequence[RankWork]) -> Alignment:
    """Matches collectives, and shifts each rank's times so that common ends coincide.

    The clocks of machines differ by more than the length of a collective, so they are not used. The end of a
    collective is common to all its ranks, and a rank's shift is the median over all of its collectives. Ranks
    without a common collective, not even through others, remain on their own clocks.
    """
    found: list[npt.NDArray[np.int32]] = []
    kinds: list[str] = []
    channels: list[str] = []
    alone: list[str] = []
    rows_of = [
        _rows_by_channel(one.exchanges, renamed) for one, renamed in zip(ranks, _names(ranks), strict=True)
    ]
    for channel in dict.fromkeys(channel for rows in rows_of for channel in rows):
        members = [place for place, rows in enumerate(rows_of) if channel in rows]
        rows, agree = _matched(ranks, [rows_of[place][channel] for place in members], members)
        if not agree:
            alone.append(channel)
        shared = rows[:, (rows >= 0).sum(axis=0) >= 2]
        if not shared.shape[1]:
            continue
        found.append(shared)
        named = [int(np.argmax(column >= 0)) for column in shared.T]
        kinds += [_kind(ranks[place].exchanges, int(shared[place, at])) for at, place in enumerate(named)]
        channels += [channel] * shared.shape[1]
    row = np.concatenate(found, axis=1) if found else np.empty((len(ranks), 0), np.int32)
    shift, residual, connected = _shifts(ranks, row)
    ends = own_times([one.exchanges.end_us for one in ranks], row) + shift[:, None]
    order = np.argsort(np.nanmax(ends, axis=0), kind="stable") if row.shape[1] else np.empty(0, np.int64)
    base = np.array([(one.base_ns - ranks[0].base_ns) / 1e3 for one in ranks])
    return Alignment(
        tuple(ranks),
        Instances(
            tuple(kinds[at] for at in order.tolist()),
            tuple(channels[at] for at in order.tolist()),
            row[:, order],
        ),
        shift,
        residual,
        np.where(connected, base - shift, np.nan),
        tuple(alone),
    )


def own_times(columns: list[Times], row: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """``[rank, instance]`` from a column of each rank's exchanges, NaN if a rank has none."""
    filled = np.full(row.shape, np.nan)
    for place, column in enumerate(columns):
        present = row[place] >= 0
        filled[place, present] = column[row[place, present]]
    return filled


def _names(ranks: Sequence[RankWork]) -> list[dict[str, str]]:
    """Common names of each rank's channels; differently numbered streams are named by their order."""
    streams = [sorted(_streams(one.exchanges), key=_number) for one in ranks]
    if all(mine == streams[0] for mine in streams):
        return [{} for _ in ranks]
    return [{name: f"stream {at} of {len(mine)}" for at, name in enumerate(mine, 1)} for mine in streams]


def _streams(exchanges: Exchanges) -> list[str]:
    return [channel for channel in exchanges.channels if channel.startswith("stream ")]


def _number(stream: str) -> tuple[int, ...]:
    return tuple(map(int, stream.rpartition(" ")[2].split(".")))


def _rows_by_channel(exchanges: Exchanges, renamed: dict[str, str]) -> dict[str, Ids]:
    between_two = np.array([kind in POINT_TO_POINT for kind in exchanges.kinds], np.bool_)
    rows: dict[str, Ids] = {}
    for number, channel in enumerate(exchanges.channels):
        chosen = np.flatnonzero((exchanges.channel == number) & ~between_two[exchanges.kind])
        if len(chosen):
            rows[renamed.get(channel, channel)] = chosen.astype(np.int32)
    return rows


def _kind(exchanges: Exchanges, row: int) -> str:
    return exchanges.kinds[int(exchanges.kind[row])]


def _matched(
    ranks: Sequence[RankWork], rows: list[Ids], members: list[int]
) -> tuple[npt.NDArray[np.int32], bool]:
    """``[rank, place in the longest sequence of a rank]``, and whether all of the members agree."""
    kinds: dict[tuple[str, int], int] = {}
    runs = [run_of(ranks[place], mine, kinds) for place, mine in zip(members, rows, strict=True)]
    longest = max(range(len(members)), key=lambda at: len(runs[at]))
    found = np.full((len(ranks), len(runs[longest])), -1, np.int32)
    found[members[longest]] = rows[longest]
    agree = len(members) > 1
    for at, place in enumerate(members):
        if at == longest:
            continue
        one = match(runs[longest], runs[at])
        if one is None:
            agree = False
            continue
        first = one.first
        found[place, first : first + one.count] = rows[at][first + one.shift : first + one.shift + one.count]
    return found, agree


def _shifts(
    ranks: Sequence[RankWork], row: npt.NDArray[np.int32]
) -> tuple[Times, Times, npt.NDArray[np.bool_]]:
    """The shift of each rank, its residual, and whether it is connected to the first rank."""
    ends = own_times([one.exchanges.end_us for one in ranks], row)
    shift = np.array([(one.base_ns - ranks[0].base_ns) / 1e3 for one in ranks])
    placed = np.zeros(len(ranks), np.bool_)
    connected = placed
    for begin in range(len(ranks)):
        if placed[begin]:
            continue
        placed[begin] = True
        _place_neighbours(ends, shift, placed)
        if begin == 0:
            connected = placed.copy()
    for _ in range(_ROUNDS if row.shape[1] else 0):
        together = np.nanmedian(ends + shift[:, None], axis=0)
        for place in np.flatnonzero((row >= 0).any(axis=1)).tolist():
            shift[place] = np.nanmedian(together - ends[place])
        shift[connected] -= shift[0]
    residual = np.full(len(ranks), np.nan)
    if row.shape[1]:
        together = np.nanmedian(ends + shift[:, None], axis=0)
        for place in np.flatnonzero((row >= 0).any(axis=1)).tolist():
            residual[place] = np.nanmedian(np.abs(together - ends[place] - shift[place]))
    return shift, residual, connected & ((row >= 0).any(axis=1))


def _place_neighbours(ends: npt.NDArray[np.float64], shift: Times, placed: npt.NDArray[np.bool_]) -> None:
    """Places every rank that shares a collective with a placed one, repeatedly, as a first guess of its shift."""
    while True:
        known = np.where(placed[:, None], ends + shift[:, None], np.nan)
        met = ~np.isnan(known).all(axis=0)
        fresh = np.flatnonzero(~placed & (~np.isnan(ends[:, met])).any(axis=1))
        if not len(fresh):
            return
        together = np.nanmedian(known[:, met], axis=0)
        for place in fresh.tolist():
            shift[place] = np.nanmedian(together - ends[place, met])
            placed[place] = True
