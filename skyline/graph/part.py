"""The parts of an iteration: those that can be timed without a profiler, and the phases of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from skyline.graph.column import Codes, sums
from skyline.graph.graph import Graph
from skyline.graph.task import KINDS, PHASES, TaskKind, Tasks
from skyline.interval import median
from skyline.trace.record import BareTimes, Phase, PhaseTimes


class Part(str, Enum):
    """A part of the iteration with its own unrecorded time.

    ``LOADER`` is time inside a data loader's ``__next__``. Only a recording can identify batches that the script
    fetches itself; they belong to ``REST``, with the forward pass and all other work.
    """

    LOADER = "loader"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    REST = "rest"


PARTS = tuple(Part)
"""The part of each code in ``parts_of``."""


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
    """The share of each part in a step: medians over the steps, normalised to sum to 1.

    Shares are averaged instead of times, because they stay constant while the machine is temporarily slow.
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


def phase_times(graph: Graph, lane: str) -> PhaseTimes:
    """Time that the lane spends in each phase, in ms per iteration, averaged, gaps included.

    On a GPU machine the lane is the script's own thread. A phase that only launches kernels looks short there, and
    the phase that waits for them looks long.
    """
    tasks = graph.tasks
    on_lane = tasks.lane == tasks.lane_code(lane)
    spent = sums(tasks.phase[on_lane], (graph.durations + graph.gaps)[on_lane], len(PHASES)).tolist()
    count = max(1, len(graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in zip(PHASES, spent, strict=True)})
