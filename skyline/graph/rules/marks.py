"""Zero-length points on host threads that the rules refer to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Ids, Indices
from skyline.graph.rules.blocking_copy import BlockingCopies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.pieces import Pieces, Role
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace


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
