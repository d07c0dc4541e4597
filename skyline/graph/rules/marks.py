"""The begin and end of the training steps, and other zero-length points on host threads that the rules refer to."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces, Role
from skyline.graph.rules.synchronisation import BlockingCopies
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace

_FEWEST = 3


def steps_of(trace: ProfilerTrace, names: Names, main: int) -> MarkedSteps:
    """The steps that the script marked; else the periods between batch fetches or optimizer steps.

    Without marks, a step lasts from one fetch of a batch to the next, or from the end of one optimizer step to the
    end of the next. Work before the first and after the last step belongs to no step.
    """
    if len(trace.steps):
        return trace.steps
    ranges = (trace.thread == main) & (trace.category <= Category.CPU_OP)
    fetches = _outermost(trace, np.flatnonzero(ranges & names.loader))
    if len(fetches) >= _FEWEST:
        return _between(fetches, trace.start_us[fetches])
    done = _outermost(trace, np.flatnonzero(ranges & names.optimizer_step))
    if len(done) >= _FEWEST:
        return _between(done, trace.end_us[done])
    return _between(done[:0], np.empty(0))


def _outermost(trace: ProfilerTrace, rows: Indices) -> Indices:
    if not len(rows):
        return rows
    reached = np.maximum.accumulate(trace.end_us[rows])
    return rows[np.append(True, trace.start_us[rows[1:]] >= reached[:-1])]


def _between(rows: Indices, time_us: np.ndarray[tuple[int], np.dtype[np.float64]]) -> MarkedSteps:
    count = max(0, len(rows) - 1)
    return MarkedSteps(
        np.arange(count, dtype=np.int64), time_us[:count], time_us[1:], rows[:count].astype(np.int32)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Numbers of the points among the pieces, in the order of the marked events."""

    origin: int
    """The first moment of the recording; starts that nothing in the recording explains count from here."""
    step_start: Ids
    step_end: Ids
    given: Ids
    """Points at which the script's thread passed work to autograd's thread."""
    waited: Ids
    """Points at which the script's thread resumed when that work was done."""
    copied: Ids
    """Points at which calls resumed after their blocking copy."""
    step_number: Indices

    def names(self) -> dict[int, str]:
        """The name of each point."""
        found = {self.origin: "start of the recording"}
        for verb, places in (("begins", self.step_start), ("ends", self.step_end)):
            numbered = zip(places.tolist(), self.step_number.tolist(), strict=True)
            found |= {place: f"step {number} {verb}" for place, number in numbered}
        found |= dict.fromkeys(self.given.tolist(), "work given to autograd's thread")
        found |= dict.fromkeys(self.waited.tolist(), "autograd's thread waited for")
        return found | dict.fromkeys(self.copied.tolist(), "copy waited for")


def marked(
    trace: ProfilerTrace,
    pieces: Pieces,
    main: int,
    steps: MarkedSteps,
    bursts: Bursts,
    copies: BlockingCopies,
    work: GpuWork,
) -> tuple[Pieces, Marks]:
    """The pieces with all points inserted.

    Of simultaneous points, the end of a step precedes the start of the next, and the return of work precedes the
    next transfer of work.
    """
    begin = min(pieces.start_us.min(initial=np.inf), work.start_us.min(initial=np.inf))
    begin = min(begin, steps.start_us.min(initial=np.inf))
    groups = (
        (main, np.array([begin if np.isfinite(begin) else 0.0]), np.zeros(1, np.int32)),
        (main, steps.end_us, steps.event),
        (main, steps.start_us, steps.event),
        (main, bursts.end_us, bursts.event),
        (main, bursts.start_us, bursts.event),
    )
    thread = [np.full(len(time), one, np.int32) for one, time, _ in groups]
    calls = work.call[copies.work]
    placed, places = pieces.marked(
        np.concatenate([*thread, trace.thread[calls]]).astype(np.int32),
        np.concatenate([*(time for _, time, _ in groups), copies.point_us]),
        np.concatenate([*(event for _, _, event in groups), calls]).astype(np.int32),
        Role.MARK,
    )
    ends = np.cumsum([len(time) for _, time, _ in groups])
    origin, step_end, step_start, waited, given, copied = np.split(places, ends)
    return placed, Marks(int(origin[0]), step_start, step_end, given, waited, copied, steps.number)
