"""The parts of an iteration that can be timed without a profiler, and how a step divides into them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from skyline.graph.column import Codes
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KINDS, PHASES, Tasks
from skyline.spread import median
from skyline.trace.bare_times import BareTimes
from skyline.trace.phase import Phase


class Part(str, Enum):
    """A stretch of the iteration with a bare time of its own.

    ``LOADER`` is time inside a data loader's ``__next__``. Batches that the script fetches by hand are told
    apart only by recording, and belong to ``REST`` together with the forward work and everything else.
    """

    LOADER = "loader"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    REST = "rest"


PARTS = tuple(Part)
"""What the codes of ``parts_of`` mean."""


def parts_of(tasks: Tasks) -> Codes:
    """The part of each task, as a code."""
    return _PART_CODES[tasks.kind, tasks.phase]


def _part(kind: TaskKind, phase: Phase) -> Part:
    if kind is TaskKind.DATA:
        return Part.LOADER
    if phase is Phase.BACKWARD:
        return Part.BACKWARD
    if phase is Phase.OPTIMIZER:
        return Part.OPTIMIZER
    return Part.REST


_PART_CODES: Codes = np.array(
    [[PARTS.index(_part(kind, phase)) for phase in PHASES] for kind in KINDS], np.uint8
)


def part_shares(times: BareTimes) -> dict[Part, float]:
    """The share of each part in a step: medians over the steps, made to sum to 1.

    Shares, not times, are averaged: on a machine that slows down for a while they stay what they are.
    """
    shares = {
        part: _median_share(samples, times.steps_ms)
        for part, samples in (
            (Part.LOADER, times.data_ms),
            (Part.BACKWARD, times.backward_ms),
            (Part.OPTIMIZER, times.optimizer_ms),
        )
    }
    known = sum(shares.values())
    if known > 1.0:
        shares = {part: share / known for part, share in shares.items()}
    shares[Part.REST] = max(0.0, 1.0 - known)
    return shares


def _median_share(samples: Sequence[float], steps: Sequence[float]) -> float:
    shares = [sample / step for sample, step in zip(samples, steps, strict=False) if step > 0]
    return median(shares) if shares else 0.0
