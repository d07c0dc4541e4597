"""Computing threads and loader workers that want more cores than there are."""

from __future__ import annotations

from math import comb

from skyline.graph.threads import ThreadUse
from skyline.lazy_dataclass import dataclass

USUAL_CROWDING = 1.4
"""The loss of computing on all cores to a worker that works little, over the worker's work. Handing out the cores in
turns would make it 1. On a quiet Xeon loops of single operators lost 1 to 1.4 (``benchmarks/worker_contention.py``) and
three training scripts 1.4 to 1.9; scripts on an EPYC that was shared with others about 1."""
_CROWDING = (0.5, 2.0)
"""Outside of this more work could take less."""


@dataclass(frozen=True, slots=True)
class Computing:
    """Work of an iteration apart from loading, with a core for each thread; ``use`` says how much of it is split."""

    total_us: float
    use: ThreadUse
    threads: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of both sides while all of them want cores; 1 is with a core for everybody.

    ``slowdown`` is the time that a unit of computing takes, ``worker_speed`` what each worker gets done in a unit
    of time meanwhile, ``free_speed`` the same while the script waits for a batch.
    """

    slowdown: float
    worker_speed: float
    free_speed: float


def pace(computing: Computing, *, workers: int, cores: int) -> Pace:
    """The slowdown of computing and busy workers by each other.

    Three kinds of computing differ. An operator split over threads goes on only while all of them have a core at
    once, since it ends when its last thread does: the cores are handed out in slices far longer than an operator,
    each set of runnable threads being equally likely (gang scheduling; Ousterhout, 1982). That is why two threads
    with one worker on two cores get a third of their speed, not two thirds. Work on one thread soon after a split
    operator shares the cores with threads that look out for the next one; later work only with the workers.
    """
    threads = computing.threads
    if workers <= 0:
        return Pace(1.0, 1.0, 1.0)
    free = min(1.0, cores / workers)
    if threads + workers <= cores:
        return Pace(1.0, free, free)
    runnable = threads + workers
    crowded = min(1.0, cores / runnable)
    together = comb(workers, cores - threads) / comb(runnable, cores) if threads <= cores else crowded
    alone = min(1.0, cores / (1 + workers))
    use = computing.use
    crowded_us = use.split / together + use.watched / crowded
    alone_us = use.alone / alone
    slowdown = crowded_us + alone_us
    if slowdown <= 0:
        return Pace(1.0, alone, free)
    return Pace(slowdown, (crowded_us * crowded + alone_us * alone) / slowdown, free)


def contended_us(
    load_us: float,
    computing: Computing,
    *,
    workers: int,
    cores: int,
    contention_penalty: float = USUAL_CROWDING,
) -> float:
    """One iteration's time when workers load during a computation that is itself split over threads.

    ``load_us`` is one batch's work for one worker alone on a core. With a core for everybody the longer of the two
    counts. Without, both go at their contended pace until one is done, and the other goes on by itself. A worker that
    sleeps most of the time has the cores before the threads when it wakes, and takes ``contention_penalty`` times as
    much from them: the less of the time it works, the more so.
    """
    compute_us = computing.total_us
    if workers <= 0:
        return load_us + compute_us
    now = pace(computing, workers=workers, cores=cores)
    stretched_us = compute_us * now.slowdown
    made_us = stretched_us * workers * now.worker_speed
    if made_us < load_us:
        return stretched_us + (load_us - made_us) / (workers * now.free_speed)
    busy_us = load_us / (workers * now.worker_speed)
    lost_us = busy_us * (1 - 1 / now.slowdown)
    if computing.threads > 1 and made_us > 0:
        low, high = _CROWDING
        lost_us *= 1 + (min(high, max(low, contention_penalty)) - 1) * (1 - load_us / made_us)
    return compute_us + lost_us


def uncontended(
    compute_us: float, use: ThreadUse, threads: int, *, load_us: float, workers: int, cores: int
) -> Computing:
    """The computation by itself, of which the time with workers that make such batches is known."""
    low, high = 0.0, compute_us
    for _ in range(40):
        middle = (low + high) / 2
        beside = contended_us(
            min(load_us, _most_us(Computing(middle, use, threads), workers, cores)),
            Computing(middle, use, threads),
            workers=workers,
            cores=cores,
        )
        low, high = (middle, high) if beside < compute_us else (low, middle)
    return Computing((low + high) / 2, use, threads)


def _most_us(computing: Computing, workers: int, cores: int) -> float:
    """Work that the workers get done while the computation goes on and never waits."""
    now = pace(computing, workers=workers, cores=cores)
    return computing.total_us * now.slowdown * workers * now.worker_speed
