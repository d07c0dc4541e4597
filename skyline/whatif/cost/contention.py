"""What happens when computing threads and loader workers want more cores than there are."""

from __future__ import annotations

from math import comb


def contended_us(
    load_us: float, compute_us: float, *, workers: int, cores: int, threads: int, parallel_share: float
) -> float:
    """One iteration's time when workers load beside a computation that is itself split over threads.

    ``load_us`` is one batch's work for one worker alone on a core, ``compute_us`` the iteration without
    loading, ``parallel_share`` the part of it in operators split over ``threads``. With a core for everybody
    the longer of the two counts. Without, an operator split over threads goes on only while all of them have
    a core at once, since it ends when its last thread does: the cores are handed out in slices far longer than
    an operator, each set of runnable threads being equally likely (gang scheduling; Ousterhout, 1982). That is
    why two threads beside one worker on two cores get a third of their speed, not two thirds.
    """
    if threads + workers <= cores:
        return max(load_us / workers, compute_us)
    runnable = threads + workers
    together = (
        comb(workers, cores - threads) / comb(runnable, cores) if threads <= cores else cores / runnable
    )
    alone = min(1.0, cores / (1 + workers))
    # Time that a unit of computing takes while the workers are busy, and how much of it is in split operators.
    split = parallel_share / together
    slowdown = split + (1 - parallel_share) / alone
    in_split = split / slowdown
    worker_speed = in_split * min(1.0, cores / runnable) + (1 - in_split) * alone
    busy_us = load_us / (workers * worker_speed)
    return busy_us + max(0.0, compute_us - busy_us / slowdown)
