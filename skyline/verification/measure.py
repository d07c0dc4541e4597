"""Runs of two versions of a script, side by side and in turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from skyline.capture.device_room import Sharing
from skyline.capture.events import Ready
from skyline.capture.held_run import TURN_S, HeldRun, Turn
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress, ProgressCallback
from skyline.errors import BudgetExceeded, Cancelled, ScriptFailed, SkylineError, UsageError
from skyline.verification.rounds import Round

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
    turn_s: float = TURN_S

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS_ASKED:
            raise UsageError(
                f"{self.rounds} rounds say too little", hint=f"Ask for {LEAST_ROUNDS_ASKED} at least."
            )
        if self.minutes <= 0:
            raise UsageError("The time limit must be more than 0 minutes")


@dataclass(frozen=True, slots=True)
class Measured:
    """The rounds, and what the two versions showed of themselves; peaks in bytes, None where they ended too soon."""

    rounds: tuple[Round, ...]
    base: Ready
    changed: Ready
    base_peak_bytes: int | None
    changed_peak_bytes: int | None
    restarts: int = 0
    """How often a run that came to its end had to be started again."""
    alone: bool = False
    """Whether the device had no room for two runs, so that each turn was a run of its own."""

    @property
    def base_ms(self) -> float:
        """The script as it ran this time."""
        return median(each.base_ms for each in self.rounds)

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
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> Measured:
    """Start the script, its change and the script again, and let each compute in its turn, round by round.

    Raises what ``capture`` raises, with a word where it was the change that failed. No process is left behind.
    """
    cancel = cancel or threading.Event()
    deadline = time.monotonic() + effort.minutes * 60
    with ExitStack() as stack:
        runs = [
            stack.enter_context(HeldRun(request, turn_s=effort.turn_s, cancel=cancel, starter=starter))
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
        rounds = _in_rounds(runs, effort.rounds, deadline, progress, cancel, waking=not alone)
        first, change, again = runs
        return Measured(
            rounds,
            first.ready,
            change.ready,
            first.peak_bytes,
            change.peak_bytes,
            sum(run.lives - 1 for run in (first, change, again)),
            alone,
        )


_NO_ROOM = "out of memory"
"""What PyTorch's error of every device says."""
_NAMES = ("the script", "the script with the change", "the script again, for the null")


def _warmed_up(run: HeldRun, runs: Sequence[HeldRun], sharing: Sharing) -> Sharing:
    """How all get by with the device once this one has warmed up on it.

    What the first takes tells how; one that does not fit there all the same gets the device to itself.
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


def _in_rounds(
    runs: Sequence[HeldRun],
    count: int,
    deadline: float,
    progress: ProgressCallback,
    cancel: threading.Event,
    *,
    waking: bool,
) -> tuple[Round, ...]:
    base, change, again = runs
    # Whatever the slower one needs for a burst of its loader is right for the others too.
    cycle = max(run.cycle for run in runs)
    for run in runs:
        run.cycle = cycle
    done: list[Round] = []
    # They stood still while the others started: the first round wakes them and is thrown away.
    for number in range(0 if waking else 1, count + 1):
        if cancel.is_set():
            raise Cancelled("The verification was cancelled")
        if done and time.monotonic() > deadline:
            break
        share = number / (count + 1)
        words = f"round {number} of {count}" if number else "waking them"
        progress(Progress("measure", words, _WARMED_UP + 0.05 + (0.6 * share)))
        # Every other round runs backwards: who comes first has no advantage in the end.
        outer = (base, again) if number % 2 == 0 else (again, base)
        before = outer[0].turn()
        changed = _of_the_change(change.turn)
        after = outer[1].turn()
        first, second = (before, after) if outer[0] is base else (after, before)
        if number:
            done.append(_round(first, changed, second))
    return tuple(done)


def _round(base: Turn, change: Turn, again: Turn) -> Round:
    others = fmean(turn.others_cores for turn in (base, change, again))
    return Round(base.typical_ms, change.typical_ms, again.typical_ms, others)


def _of_the_change(action: Callable[[], _Result]) -> _Result:
    """What the change does wrong is told as such: as it stands, the script ran."""
    try:
        return action()
    except Cancelled:
        raise
    except ScriptFailed as error:
        raise ScriptFailed(
            f"{_CHANGED}: {error.message}",
            traceback=error.traceback,
            hint=f"{_CHANGED}; as it stands it ran. Nothing on disk was changed.",
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
