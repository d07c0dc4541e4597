"""Timing iterations without any recording, until their spread is small."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

import msgspec

from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.events import BareSteps, StepRow
from skyline.capture.request import CaptureRequest
from skyline.trace.record import BareTimes

_SMALL_SPREAD = 0.015
_TURN_S = 1.0
LEAST_STEPS = 3
"""The fewest iterations that are timed, unless they are long."""
ENOUGH_STEPS = 9
"""From so many on, the 95 % range of their median no longer reaches from the fastest to the slowest of them."""
_PRESENT = 5
_RECORDED_MS = 3_000.0
_FROM_IDLE = 5
"""Iterations with an idle device at their start: the median of five, since the host's time scatters."""
LONG_MS = 4_000.0
"""Of a longer iteration one is timed and one recorded: a pause before it and the caches hardly change its time."""


@dataclass(slots=True)
class BareRows:
    """Bare iterations in the order they were measured."""

    rows: list[StepRow] = field(default_factory=list[StepRow])

    @property
    def steps_ms(self) -> list[float]:
        """Whole iterations."""
        return [row.step_ms for row in self.rows]

    @property
    def median_ms(self) -> float:
        """The typical iteration so far."""
        return statistics.median(self.steps_ms)

    @property
    def present_ms(self) -> float:
        """The typical iteration of the last few: under the load of the machine at present."""
        return statistics.median(self.steps_ms[-_PRESENT:])

    @property
    def settled(self) -> bool:
        """True if the median is known well, by the spread of the iterations."""
        return _spread(self.steps_ms) <= _SMALL_SPREAD

    def times(self) -> BareTimes:
        """The rows as they are kept in a profile."""
        rows = self.rows
        return BareTimes(
            tuple(row.step_ms for row in rows),
            tuple(row.data_ms for row in rows),
            tuple(row.backward_ms for row in rows),
            tuple(row.optimizer_ms for row in rows),
            tuple(row.memory_bytes for row in rows) if all(row.memory_bytes for row in rows) else (),
            tuple(row.host_ms for row in rows) if all(row.host_ms for row in rows) else (),
            tuple(row.saving_ms for row in rows),
            tuple(row.logging_ms for row in rows),
            tuple(row.evaluation_ms for row in rows),
            tuple(row.rollout_ms for row in rows),
        )

    @property
    def fetches(self) -> float:
        """Mean number of batches taken from data loaders in an iteration."""
        return statistics.fmean(row.fetches for row in self.rows)

    @property
    def usual_fetches(self) -> float:
        """Number of batches taken in the middle of all iterations: an evaluation in a few of them takes many more."""
        return statistics.median(row.fetches for row in self.rows)

    @property
    def backward_calls(self) -> float:
        """Mean number of backward passes in an iteration."""
        return statistics.fmean(row.backward_calls for row in self.rows)

    @property
    def optimizer_steps(self) -> float:
        """Mean number of optimizer steps, of all optimizers, in an iteration."""
        return statistics.fmean(row.optimizer_steps for row in self.rows)


def run_bare(child: ChildProcess, iterations: int, *, waiting: bool = False) -> tuple[StepRow, ...]:
    """Let the child run so many iterations and give its rows; ``waiting`` for its device at the end of each."""
    return run_steps(child, iterations, waiting=waiting).rows


def run_steps(child: ChildProcess, iterations: int, *, waiting: bool = False) -> BareSteps:
    """The same, with the files that were saved meanwhile."""
    child.send("run", iterations=iterations, waiting=waiting)
    return msgspec.convert(child.receive("steps"), BareSteps)


def first_steps(
    child: ChildProcess,
    request: CaptureRequest,
    expected_ms: float,
    last: StepRow | None = None,
    seconds: float = math.inf,
) -> BareRows:
    """The least that a profile needs: ``request.steps`` iterations, fewer where they are slow or ``seconds`` are few.

    ``last`` is the last iteration of the warm-up: if it is long, it is all. The first iteration of a turn follows a
    pause and is dropped unless it is long.
    """
    if expected_ms > LONG_MS:
        return BareRows([last] if last is not None else list(run_bare(child, 1)))
    affordable = int(min(request.settle_s, seconds) * 1e3 / max(expected_ms, 0.01))
    steps = max(min(LEAST_STEPS, request.steps), min(request.steps, affordable))
    return BareRows(list(run_bare(child, steps + 1)[1:]))


def from_idle(child: ChildProcess, request: CaptureRequest, rows: BareRows) -> BareTimes | None:
    """Iterations that each begin with an idle device: the host launches them without waiting for a full queue.

    Call it before anything is recorded: the recorder of a device's kernels may stay attached and slow each launch. None
    where iterations are long, or few are left.
    """
    affordable = int(_RECORDED_MS / max(rows.median_ms, 0.01))
    count = min(_FROM_IDLE, affordable)
    if request.recorded <= 1 or count < LEAST_STEPS:
        return None
    return BareRows(list(run_bare(child, count + 1, waiting=True)[1:])).times()


def iterations_to_record(request: CaptureRequest, rows: BareRows) -> tuple[int, int]:
    """Numbers of iterations to record: lightly, and in full before that; fewer where they are long."""
    if rows.median_ms > LONG_MS:
        return 0, 1
    affordable = int(_RECORDED_MS / max(rows.median_ms, 0.01))
    return max(1, min(request.recorded, affordable)), min(2, request.recorded)


def beside_recording(
    child: ChildProcess,
    request: CaptureRequest,
    into: BareRows,
    recorded: int,
    seconds: float = math.inf,
) -> tuple[float, ...]:
    """Bare iterations in ms from directly before and after the recorded ones, to set them against.

    Later measurements are added to ``into``. On a machine that drifts, the median over all bare iterations
    would say less of what recording costs. Call it right after the recording. Where ``seconds`` or the time of the
    request are too few, it is one iteration.
    """
    before = into.steps_ms[-recorded:]
    if into.median_ms > LONG_MS:
        into.rows += run_bare(child, 1)
        return (*before, into.steps_ms[-1])
    slow = into.present_ms * recorded > min(request.settle_s, seconds) * 1e3
    rows = run_bare(child, 1 if slow else recorded + 1)
    rows = rows if slow else rows[1:]
    into.rows += rows
    return (*before, *(row.step_ms for row in rows))


def beside_recording_on_device(child: ChildProcess, recorded: int) -> tuple[float, ...]:
    """Bare iterations in ms from right after the recorded ones, which wait for their device as those do.

    They count for nothing else: the recorder of a device's kernels may stay attached and slow each launch.
    """
    return tuple(row.step_ms for row in run_bare(child, recorded + 1, waiting=True)[1:])


def settle(child: ChildProcess, request: CaptureRequest, into: BareRows, seconds: float = math.inf) -> None:
    """Measure further into ``into`` until the median is known well or the time is spent.

    Well known: the middle half of the steps, over the square root of their number, is within 1.5 % of the
    median. All iterations together take ``request.settle_s``, or as long as ``ENOUGH_STEPS`` where that is longer, or
    ``seconds`` where that is less. Raises ScriptEnded where the script ends meanwhile, with its iterations until then
    in ``into``.
    """
    settle_s = max(request.settle_s, ENOUGH_STEPS * into.median_ms / 1e3)
    budget_ms = min(settle_s, seconds) * 1e3 - sum(into.steps_ms)
    while not into.settled and budget_ms > into.median_ms * 2:
        turn = max(2, int(min(_TURN_S * 1e3, budget_ms) / into.median_ms))
        try:
            rows = run_bare(child, turn + 1)
        except ScriptEnded as ended:
            into.rows += ended.ended.rows[1:]
            raise
        into.rows += rows[1:]
        budget_ms -= sum(row.step_ms for row in rows)


def _spread(steps_ms: list[float]) -> float:
    if len(steps_ms) < 4:
        return float("inf")
    low, middle, high = statistics.quantiles(steps_ms, n=4)
    return (high - low) / middle / len(steps_ms) ** 0.5 if middle else float("inf")
