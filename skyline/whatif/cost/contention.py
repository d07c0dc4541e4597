"""Computing threads and loader workers that together want more cores than there are."""

from __future__ import annotations

from math import comb

from skyline.graph.threads import ThreadUse
from skyline.lazy_dataclass import dataclass

USUAL_CROWDING = 1.4
"""The time that computing on all cores loses to a worker that is rarely busy, relative to the worker's work.
Fair sharing of the cores would give 1. On a quiet Xeon, loops of single operators lost 1 to 1.4
(``benchmarks/worker_contention.py``) and three training scripts 1.4 to 1.9; scripts on an EPYC that was
shared with others lost about 1."""
_CROWDING = (0.5, 2.0)
"""Outside of this range, more work could take less time."""


@dataclass(frozen=True, slots=True)
class Computing:
    """The work of an iteration without loading, with a core for each thread; ``use`` tells how much of it is split."""

    total_us: float
    use: ThreadUse
    threads: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of script and workers while all of them want cores; 1 if each thread and worker has a core.

    ``slowdown`` is the time that a unit of computing takes. ``worker_speed`` is the work that each worker
    does in a unit of time meanwhile, ``free_speed`` its work while the script waits for a batch.
    """

    slowdown: float
    worker_speed: float
    free_speed: float


def pace(computing: Computing, *, workers: int, cores: int) -> Pace:
    """The slowdown that computing threads and busy workers cause each other.

    Three kinds of computing differ. An operator split over threads goes on only while all of them have a core
    at once, since it ends when its last thread does: the cores are handed out in slices far longer than an
    operator, each set of runnable threads being equally likely (gang scheduling; Ousterhout, 1982). That is
    why two threads with one worker on two cores get a third of their speed, not two thirds. Work on one
    thread soon after a split operator shares the cores with threads that spin for the next operator; later
    work shares them only with the workers.
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
    """The time of one iteration in µs if workers load during a computation that is split over threads.

    ``load_us`` is one batch's work for one worker alone on a core. If there are enough cores, the longer of
    loading and computing counts. Otherwise, both run at their contended pace until one is done, and the other
    continues alone. A worker that sleeps most of the time is scheduled before the threads when it wakes, and
    takes up to ``contention_penalty`` times its work from them: the less it works, the closer to that factor.
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
    """The computation by itself, inferred from its time with workers that make batches of ``load_us``."""
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
    """The work in µs that the workers complete during the computation if it never waits."""
    now = pace(computing, workers=workers, cores=cores)
    return computing.total_us * now.slowdown * workers * now.worker_speed
