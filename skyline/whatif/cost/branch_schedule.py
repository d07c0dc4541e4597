"""Independent steps of a model on workers with cores of their own: list scheduling with the cost of each cut.

Steps are assigned in the order of the longest path after them (HEFT; Topcuoglu, Hariri, Wu, 2002). A
dependency between different workers is cut: it costs a hand-over and its bytes, as the weights of the cut in
WB-Libra (Ma and others, 2020), which divides programs among cores.

Each worker is a Python thread; the script's own thread waits. The threads of the script's operators do not
sleep meanwhile: OpenMP lets them spin on cores that the workers need.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyline.graph.threads import SPIN_US
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """One step in one pass: its time in µs on all threads (``alone_us``) and on one worker's threads (``apart_us``).

    For ``python_us`` it holds the interpreter, and for ``memory_us`` it keeps the memory bus busy: workers
    cannot do either in parallel. ``needs`` are the numbers of the steps that it waits for, and
    ``taken_bytes`` is the size of the data from them.
    """

    alone_us: float
    apart_us: float
    needs: frozenset[int]
    python_us: float = 0.0
    memory_us: float = 0.0
    taken_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Workers:
    """Number of workers, and the cost of a dependency between two of them.

    ``call_us`` is Python's time for each branch that is given to a worker. Each worker computes on
    ``threads`` threads; ``spinning`` further threads keep cores busy. ``cores`` is the number of cores; 0
    means no limit. With ``kept``, no thread moves to another core.
    """

    count: int
    hand_over_us: float
    bytes_per_us: float
    call_us: float = 0.0
    threads: int = 1
    spinning: int = 0
    cores: int = 0
    kept: bool = False

    def cut_us(self, taken_bytes: float) -> float:
        """The cost in µs of a dependency between different workers."""
        return self.hand_over_us + taken_bytes / self.bytes_per_us

    def beside_spinning_us(self, span_us: float, used: int) -> float:
        """The time of ``used`` workers in µs while other threads spin: all ready threads share the cores evenly.

        If no thread moves, one worker has half of a core, and the others wait for it.
        """
        ready = used * self.threads + self.spinning
        if not self.spinning or not self.cores or ready <= self.cores:
            return span_us
        slower = max(2.0, ready / self.cores) if self.kept else ready / self.cores
        return min(span_us * slower, span_us + SPIN_US * (1 - 1 / slower))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps between two synchronization points, and their time on all threads and on the workers.

    ``limit`` names the bound: ``spinning`` if the steps would gain without spinning threads, ``python``,
    ``memory``, ``branch`` for the longest path through the steps, or ``threads``.
    """

    steps: tuple[int, ...]
    alone_us: float
    span_us: float
    limit: str
    used: int
    """The number of workers that have a step."""


def schedules(works: Sequence[Work], workers: Workers) -> tuple[Schedule, ...]:
    """A schedule for each stretch with independent steps; synchronization points run on all threads."""
    return tuple(scheduled(works, stretch, workers) for stretch in stretches([one.needs for one in works]))


def stretches(needs: Sequence[frozenset[int]]) -> tuple[tuple[int, ...], ...]:
    """The groups of steps between synchronization points, which are ordered relative to every other step.

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
    """The schedule of steps on the workers: the step with the longest path after it first, where it ends soonest."""
    inside = set(steps)
    behind: dict[int, float] = {}
    for step in sorted(steps, reverse=True):
        later = (
            behind[one] + workers.cut_us(works[one].taken_bytes) for one in steps if step in works[one].needs
        )
        behind[step] = works[step].apart_us + max(later, default=0.0)
    free = [0.0] * workers.count
    calls = 0
    ends: dict[int, float] = {}
    places: dict[int, int] = {}
    # Ties go to the earlier step: a step that another one needs has a longer path after it, unless it takes
    # no time.
    for step in sorted(steps, key=lambda one: (-behind[one], one)):
        work = works[step]
        cut_us = workers.cut_us(work.taken_bytes)
        needed = work.needs & inside
        possible: list[tuple[float, int, bool]] = []
        for worker in range(workers.count):
            # The script's own thread has the earlier results, and waits.
            start = max(free[worker], cut_us)
            for one in needed:
                start = max(
                    start, ends.get(one, 0.0) + (cut_us if places.get(one, worker) != worker else 0.0)
                )
            called = work.apart_us > 0 and not any(places.get(one) == worker for one in needed)
            possible.append((start + work.apart_us + called * workers.call_us, worker, called))
        end, worker, called = min(possible)
        free[worker] = ends[step] = end
        places[step] = worker
        calls += called
    used = set(places.values())
    span = max(ends.values(), default=0.0) + workers.hand_over_us
    alone = sum(works[one].alone_us for one in steps)
    bounds = {
        "python": sum(works[one].python_us for one in steps) + calls * workers.call_us,
        "memory": sum(works[one].memory_us for one in steps),
        "branch": _longest(works, steps, inside),
    }
    limit = max(bounds, key=bounds.__getitem__)
    span = max(span, *bounds.values())
    # A bound counts only if it is nearly reached; otherwise all threads gain as much as several steps at a
    # time.
    close = bounds[limit] >= 0.9 * span
    took = workers.beside_spinning_us(span, len(used))
    named = "spinning" if span < alone <= took else limit if close else "threads"
    return Schedule(tuple(steps), alone, took, named, len(used))


def _longest(works: Sequence[Work], steps: Sequence[int], inside: set[int]) -> float:
    ends: dict[int, float] = {}
    for step in sorted(steps):
        begin = max((ends[one] for one in works[step].needs & inside), default=0.0)
        ends[step] = begin + works[step].apart_us
    return max(ends.values(), default=0.0)
