"""Runs of two versions of a script, side by side and in turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from skyline.capture.device_room import Sharing
from skyline.capture.events import Ready
from skyline.capture.held_run import PACE, HeldRun
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress, ProgressCallback
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.turns import Turn, in_turns, trial
from skyline.errors import BudgetExceeded, Cancelled, ScriptFailed, SkylineError, UsageError
from skyline.trace.trial import Choices, Trial

LEAST_ROUNDS_ASKED = 6
_WARMED_UP = 0.3
"""The share of the progress bar that is full when the rounds begin."""
_CHANGED = "With the change, the script failed"
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: so many rounds, and no new one after so many minutes in all. A turn takes about ``turn_s``.

    Raises UsageError for what makes no measurement.
    """

    rounds: int = 8
    minutes: float = 15.0
    turn_s: float = PACE.turn_s

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS_ASKED:
            raise UsageError(
                f"{self.rounds} rounds say too little", hint=f"Ask for {LEAST_ROUNDS_ASKED} at least."
            )
        if self.minutes <= 0:
            raise UsageError("The time limit must be more than 0 minutes")


@dataclass(frozen=True, slots=True)
class Measured:
    """The change as a trial, and what the two versions showed of themselves.

    ``base_ms`` is the iteration of the script in these rounds. ``base_peak_bytes`` is None where it ended too soon.
    """

    trial: Trial
    base: Ready
    changed: Ready
    base_ms: float
    base_peak_bytes: int | None
    restarts: int = 0
    """How often a run that came to its end had to be started again."""
    alone: bool = False
    """Whether the device had no room for two runs, so that each turn was a run of its own."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know of the runs."""
        if self.alone:
            return ("The device has no room for two runs of the script: each turn was a run of its own.",)
        if not self.restarts:
            return ()
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return (f"A run came to its end while it was measured and was started again, {times} in all.",)


def measure(
    base: CaptureRequest,
    changed: CaptureRequest,
    effort: Effort,
    *,
    words: str = "",
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> Measured:
    """Start the script, its change and the script again, and let each compute in its turn, round by round.

    ``words`` describe the change. Raises what ``capture`` raises, and says so where the change failed. No process is
    left behind.
    """
    cancel = cancel or threading.Event()
    deadline = time.monotonic() + effort.minutes * 60
    pace = replace(PACE, turn_s=effort.turn_s)

    def on_round(number: int) -> None:
        if cancel.is_set():
            raise Cancelled("The verification was cancelled")
        stage = f"round {number} of {effort.rounds}" if number else "waking them"
        share = number / (effort.rounds + 1)
        progress(Progress("measure", stage, _WARMED_UP + 0.05 + (0.6 * share)))

    with ExitStack() as stack:
        runs = [
            stack.enter_context(HeldRun(ScriptLauncher(request, cancel=cancel, starter=starter), pace))
            for request in (base, changed, base)
        ]
        progress(Progress("launch", "starting the script, the change, and the script again", 0.02))
        for run in runs:
            run.launch()
        # They import PyTorch side by side but warm up one by one: together they would wait for each other's cores.
        sharing = Sharing.TOGETHER
        for number, (run, what) in enumerate(zip(runs, _NAMES, strict=True)):
            progress(Progress("warm up", what, 0.05 + _WARMED_UP * number / len(runs)))
            sharing = _warmed_up(run, runs, sharing)
        alone = sharing is Sharing.ALONE
        # The group of iterations that the slower loader needs is right for the others too.
        cycle = max(run.cycle for run in runs)
        for run in runs:
            run.cycle = cycle
        first, change, again = runs
        rounds = in_turns(
            first,
            (_Changed(change),),
            again,
            rounds=effort.rounds,
            deadline=deadline,
            wakes=not alone,
            on_round=on_round,
        )
        return Measured(
            trial(Choices(change=words), rounds, peak_bytes=change.peak_bytes),
            first.ready,
            change.ready,
            median(one.base.typical_ms for one in rounds),
            first.peak_bytes,
            sum(run.lives - 1 for run in runs),
            alone,
        )


_NO_ROOM = "out of memory"
"""What PyTorch's error of every device says."""
_NAMES = ("the script", "the script with the change", "the script again, for the null")


def _warmed_up(run: HeldRun, runs: Sequence[HeldRun], sharing: Sharing) -> Sharing:
    """Warm up a run, and find out how all of them share the device.

    The memory of the first run decides. A later one that finds no memory all the same gets the device to itself.
    """

    def warm_up() -> None:
        if run is runs[1]:
            _of_the_change(run.warm_up)
        else:
            run.warm_up()

    try:
        warm_up()
    except ScriptFailed as failed:
        if run is runs[0] or sharing is Sharing.ALONE or _NO_ROOM not in failed.message.lower():
            raise
        sharing = Sharing.ALONE
        run.close()
        for other in runs:
            other.share(sharing)
        run.launch()
        warm_up()
    if run is runs[0] and run.room is not None:
        peak = run.room.peak_bytes
        sharing = run.room.sharing_of_held([peak] * (len(runs) - 1))
        for other in runs:
            other.share(sharing)
    return sharing


@dataclass(frozen=True, slots=True)
class _Changed:
    """The run with the change, whose failures are those of the change."""

    run: HeldRun

    def turn(self) -> Turn | None:
        return _of_the_change(self.run.turn)


def _of_the_change(action: Callable[[], _Result]) -> _Result:
    """An error of the change says that the script ran without it."""
    try:
        return action()
    except Cancelled:
        raise
    except ScriptFailed as error:
        raise ScriptFailed(
            f"{_CHANGED}: {error.message}",
            traceback=error.traceback,
            hint=f"{_CHANGED}; without it, the script ran. Nothing on disk was changed.",
            file=error.file,
            line=error.line,
        ) from error
    except BudgetExceeded as error:
        raise BudgetExceeded(
            f"With the change: {error.message}", hint=error.hint, file=error.file, line=error.line
        ) from error
    except SkylineError as error:
        error.message = f"With the change: {error.message}"
        raise
