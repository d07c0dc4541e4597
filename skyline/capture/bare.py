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
"""With this many steps, the 95 % range of the median no longer spans the fastest to the slowest step."""
_PRESENT = 5
_RECORDED_MS = 3_000.0
_FROM_IDLE = 5
"""Number of iterations that start with an idle device. Their median is used, since the host's time scatters."""
LONG_MS = 4_000.0
"""If iterations are longer, one is timed and one recorded: a pause and cold caches hardly change such times."""


@dataclass(slots=True)
class BareRows:
    """Bare iterations in the order they were measured."""

    rows: list[StepRow] = field(default_factory=list[StepRow])

    @property
    def steps_ms(self) -> list[float]:
        """Times of whole iterations in ms."""
        return [row.step_ms for row in self.rows]

    @property
    def median_ms(self) -> float:
        """Median time of the iterations so far, in ms."""
        return statistics.median(self.steps_ms)

    @property
    def present_ms(self) -> float:
        """Median time of the last few iterations in ms, under the present load of the machine."""
        return statistics.median(self.steps_ms[-_PRESENT:])

    @property
    def settled(self) -> bool:
        """True if the spread of the iterations is small enough for a precise median."""
        return _spread(self.steps_ms) <= _SMALL_SPREAD

    def times(self) -> BareTimes:
        """The rows in the form in which a profile stores them."""
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
        """Median number of batches per iteration. The mean is higher if some iterations include an evaluation."""
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
    """Let the child run this many iterations and return their rows; ``waiting``: it syncs its device after each."""
    return run_steps(child, iterations, waiting=waiting).rows


def run_steps(child: ChildProcess, iterations: int, *, waiting: bool = False) -> BareSteps:
    """Run iterations like ``run_bare``, and return them with the files saved meanwhile."""
    child.send("run", iterations=iterations, waiting=waiting)
    return msgspec.convert(child.receive("steps"), BareSteps)


def first_steps(
    child: ChildProcess,
    request: CaptureRequest,
    expected_ms: float,
    last: StepRow | None = None,
    seconds: float = math.inf,
) -> BareRows:
    """The bare iterations that a profile needs: ``request.steps``, fewer if they are slow or ``seconds`` is short.

    ``last`` is the last iteration of the warm-up: if it is long, it is the only one. The first iteration of a turn
    follows a pause and is dropped unless it is long.
    """
    if expected_ms > LONG_MS:
        return BareRows([last] if last is not None else list(run_bare(child, 1)))
    affordable = int(min(request.settle_s, seconds) * 1e3 / max(expected_ms, 0.01))
    steps = max(min(LEAST_STEPS, request.steps), min(request.steps, affordable))
    return BareRows(list(run_bare(child, steps + 1)[1:]))


def from_idle(child: ChildProcess, request: CaptureRequest, rows: BareRows) -> BareTimes | None:
    """Iterations that each start with an idle device: the host launches their work without waiting for a full queue.

    Call it before anything is recorded: the kernel recorder may stay attached and slow down each launch. None if
    iterations are long, or few are left.
    """
    affordable = int(_RECORDED_MS / max(rows.median_ms, 0.01))
    count = min(_FROM_IDLE, affordable)
    if request.recorded <= 1 or count < LEAST_STEPS:
        return None
    return BareRows(list(run_bare(child, count + 1, waiting=True)[1:])).times()


def iterations_to_record(request: CaptureRequest, rows: BareRows) -> tuple[int, int]:
    """Numbers of iterations to record lightly, and in full before that; fewer if iterations are long."""
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
    """Bare iterations in ms from directly before and after the recorded ones, for comparison with those.

    The iterations run here are added to ``into``. On a machine that drifts, the median over all bare iterations
    would give a less precise cost of recording. Call it right after the recording. It runs one iteration if
    ``seconds`` or the time of the request do not allow more.
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
    """Bare iterations in ms from right after the recorded ones; both wait for the device at their end.

    They are used for nothing else: the kernel recorder may stay attached and slow down each launch.
    """
    return tuple(row.step_ms for row in run_bare(child, recorded + 1, waiting=True)[1:])


def settle(child: ChildProcess, request: CaptureRequest, into: BareRows, seconds: float = math.inf) -> None:
    """Add iterations to ``into`` until their median is precise or the time is spent.

    Precise: the interquartile range of the steps, divided by the square root of their number, is at most 1.5 % of
    the median. All iterations together take at most ``request.settle_s``, or the time of ``ENOUGH_STEPS`` iterations
    if that is longer, but never more than ``seconds``. Raises ScriptEnded if the script ends meanwhile; ``into`` then
    has the iterations until its end.
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
