"""The phase of its step that each piece belongs to."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Codes, Flags, Ids, Indices, Times
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces
from skyline.graph.rules.threads import HostThreads
from skyline.graph.tasks import PHASE
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace
from skyline.trace.phase import Phase


def iterations_of(pieces: Pieces, steps: MarkedSteps) -> Ids:
    """The index of the step in which each piece begins.

    Pieces before the first step count as part of the first; pieces after the last step as part of the last.
    """
    place = np.searchsorted(steps.start_us, pieces.start_us, side="right") - 1
    return np.clip(place, 0, max(0, len(steps) - 1)).astype(np.int32)


def phases_of(
    trace: ProfilerTrace,
    names: Names,
    hosts: HostThreads,
    pieces: Pieces,
    iteration: Ids,
    bursts: Bursts,
) -> Codes:
    """The phase of each piece, from the ranges that PyTorch names and from the threads.

    Autograd's threads run the backward pass, as does the script's thread while it waits for them. Earlier work of
    the script's thread in a step, if it contains operators, is the forward pass. Loaders and optimizers have named
    ranges.
    """
    phase = np.full(len(pieces), PHASE[Phase.OTHER], np.uint8)
    start = pieces.start_us
    held = pieces.operator >= 0
    operator = np.maximum(pieces.operator, 0)
    own = pieces.thread == hosts.main
    backward = np.isin(pieces.thread, hosts.autograd) | (held & names.backward[operator])
    backward |= own & _within(start, bursts.start_us, bursts.end_us)
    first = np.full(int(iteration.max(initial=0)) + 1, np.inf)
    np.minimum.at(first, iteration[backward], start[backward])
    phase[own & held & (start < first[iteration])] = PHASE[Phase.FORWARD]
    phase[backward] = PHASE[Phase.BACKWARD]
    ranges = (trace.thread == hosts.main) & (trace.category <= Category.CPU_OP)
    optimizer: Indices = np.flatnonzero(ranges & names.optimizer)
    phase[own & _within(start, trace.start_us[optimizer], trace.end_us[optimizer])] = PHASE[Phase.OPTIMIZER]
    phase[held & names.loader[operator]] = PHASE[Phase.DATA]
    return phase


def _within(time_us: Times, start_us: Times, end_us: Times) -> Flags:
    """True for each time inside one of the ranges, which are sorted by start; ends are exclusive."""
    if not len(start_us):
        return np.zeros(len(time_us), np.bool_)
    reached = np.maximum.accumulate(end_us)
    place = np.searchsorted(start_us, time_us, side="right") - 1
    return (place >= 0) & (time_us < reached[np.maximum(place, 0)])
