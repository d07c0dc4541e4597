"""Which traces make up the job: one per rank, of one world."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath

from skyline.errors import UsageError
from skyline.job.reading import RankTrace, Unread


@dataclass(frozen=True, slots=True)
class Members:
    """The traces by rank, and what has to be said about them."""

    traces: tuple[RankTrace, ...]
    world_size: int
    """0 where no trace says."""
    missing: tuple[int, ...]
    """Ranks of the job of which there is no trace."""
    notes: tuple[str, ...]


def members(read: Iterable[RankTrace | Unread]) -> Members:
    """Sort what was read into a job.

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
            hint="Name the files of one job, as in: skyline ranks run7/*.json.gz",
        )
    found = _numbered(found, notes)
    traces = tuple(_latest(same, notes) for _, same in sorted(_by_rank(found).items()))
    world_size = sizes[0] if sizes else 0
    there = {one.work.rank for one in traces}
    missing = tuple(rank for rank in range(world_size) if rank not in there)
    return Members(traces, world_size, missing, tuple(notes))


def _numbered(found: list[RankTrace], notes: list[str]) -> list[RankTrace]:
    """Ranks for traces that say none, from their file's order; the numbers that are free."""
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
