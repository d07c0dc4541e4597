"""Independent steps of a model on workers with cores of their own: list scheduling with the cost of each cut.

Steps go to workers in the order of the longest way behind them (HEFT; Topcuoglu, Hariri, Wu, 2002). A dependency whose
ends have other workers is cut: it costs a hand-over and its bytes, the weights of the cut in WB-Libra (Ma and others,
2020), which divides programs among cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """One step in one pass, in µs: on all threads, and on those of one worker.

    ``python_us`` of it hold the interpreter, ``memory_us`` keep the way to memory busy: neither is there twice.
    ``needs`` are the numbers of the steps that it waits for, and ``taken_bytes`` come from them.
    """

    alone_us: float
    apart_us: float
    needs: frozenset[int]
    python_us: float = 0.0
    memory_us: float = 0.0
    taken_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Workers:
    """Number of workers, and the cost of a dependency between two of them."""

    count: int
    hand_over_us: float
    bytes_per_us: float

    def cut_us(self, taken_bytes: float) -> float:
        """Of a dependency whose ends have other workers."""
        return self.hand_over_us + taken_bytes / self.bytes_per_us


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps that lie between two that all others wait for, and their time on all threads and on the workers.

    ``limit`` names the bound: ``python``, ``memory``, ``branch`` for the longest way through them, or ``threads``.
    """

    steps: tuple[int, ...]
    alone_us: float
    span_us: float
    limit: str
    used: int
    """Workers that have a step."""


def schedules(works: Sequence[Work], workers: Workers) -> tuple[Schedule, ...]:
    """One for each stretch of steps that has independent ones; steps that all others wait for have all threads."""
    return tuple(scheduled(works, stretch, workers) for stretch in stretches([one.needs for one in works]))


def stretches(needs: Sequence[frozenset[int]]) -> tuple[tuple[int, ...], ...]:
    """The steps between those that each other one comes before or behind, where there are several.

    Raises:
        ValueError: a step needs a later one.
    """
    count = len(needs)
    before = [0] * count
    behind = [0] * count
    for step, needed in enumerate(needs):
        for one in needed:
            if one >= step:
                raise ValueError(f"step {step} needs step {one}")
            before[step] |= before[one] | 1 << one
    for step in range(count):
        for one in range(step):
            if before[step] >> one & 1:
                behind[one] |= 1 << step
    meeting = [(before[one] | behind[one]).bit_count() == count - 1 for one in range(count)]
    all_meeting = sum(1 << one for one in range(count) if meeting[one])
    found: dict[int, list[int]] = {}
    for step in range(count):
        if not meeting[step]:
            found.setdefault((before[step] & all_meeting).bit_count(), []).append(step)
    return tuple(tuple(steps) for _, steps in sorted(found.items()))


def scheduled(works: Sequence[Work], steps: Sequence[int], workers: Workers) -> Schedule:
    """The steps on the workers: the one with the longest way behind it first, where it ends soonest."""
    inside = set(steps)
    behind: dict[int, float] = {}
    for step in sorted(steps, reverse=True):
        later = (
            behind[one] + workers.cut_us(works[one].taken_bytes) for one in steps if step in works[one].needs
        )
        behind[step] = works[step].apart_us + max(later, default=0.0)
    free = [0.0] * workers.count
    ends: dict[int, float] = {}
    places: dict[int, int] = {}
    # Of equal ways the earlier step: what a step needs has a longer way behind it, unless it takes no time.
    for step in sorted(steps, key=lambda one: (-behind[one], one)):
        work = works[step]
        cut_us = workers.cut_us(work.taken_bytes)
        needed = work.needs & inside
        possible: list[tuple[float, int]] = []
        for worker in range(workers.count):
            # The first worker is the script's own thread, which has what came before.
            start = max(free[worker], 0.0 if worker == 0 else cut_us)
            for one in needed:
                start = max(
                    start, ends.get(one, 0.0) + (cut_us if places.get(one, worker) != worker else 0.0)
                )
            possible.append((start + work.apart_us, worker))
        end, worker = min(possible)
        free[worker] = ends[step] = end
        places[step] = worker
    used = set(places.values())
    span = max(end + (workers.hand_over_us if places[step] else 0.0) for step, end in ends.items())
    alone = sum(works[one].alone_us for one in steps)
    bounds = {
        "python": sum(works[one].python_us for one in steps),
        "memory": sum(works[one].memory_us for one in steps),
        "branch": _longest(works, steps, inside),
    }
    limit = max(bounds, key=bounds.__getitem__)
    span = max(span, *bounds.values())
    # A bound that is not nearly reached is none: then all threads gain as much as several steps at a time.
    close = bounds[limit] >= 0.9 * span
    return Schedule(tuple(steps), alone, span, limit if close else "threads", len(used))


def _longest(works: Sequence[Work], steps: Sequence[int], inside: set[int]) -> float:
    ends: dict[int, float] = {}
    for step in sorted(steps):
        begin = max((ends[one] for one in works[step].needs & inside), default=0.0)
        ends[step] = begin + works[step].apart_us
    return max(ends.values(), default=0.0)
