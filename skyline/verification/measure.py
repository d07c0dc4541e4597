"""Runs two versions of a script side by side and in turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import Protocol, TypeVar

from skyline.capture.device_room import Sharing
from skyline.capture.events import Ready
from skyline.capture.held_run import PACE, HeldRun
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress, ProgressCallback
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.turns import Round, Turn, in_turns, trial
from skyline.errors import Cancelled, ScriptFailed, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.trial import Choices, Trial

LEAST_ROUNDS_ASKED = 6
_WARMED_UP = 0.3
"""Progress at the start of the rounds."""
_CHANGED = "With the change, the script failed"
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of the measurement: the number of rounds, and the minutes after which no new round starts.

    A turn takes about ``turn_s``. Raises UsageError for values that give no measurement.
    """

    rounds: int = 8
    minutes: float = 15.0
    turn_s: float = PACE.turn_s

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS_ASKED:
            raise UsageError(f"{self.rounds} rounds are too few", hint=f"Give at least {LEAST_ROUNDS_ASKED}.")
        if self.minutes <= 0:
            raise UsageError("The time limit must be more than 0 minutes")


@dataclass(frozen=True, slots=True)
class Measured:
    """The change as a trial, and properties of the two versions.

    ``base_ms`` is the script's iteration time in these rounds. ``base_peak_bytes`` is None if the script ended too
    soon.
    """

    trial: Trial
    base: Ready
    changed: Ready
    base_ms: float
    base_peak_bytes: int | None
    restarts: int = 0
    """Number of restarts of a run that ended early."""
    alone: bool = False
    """True if the device has no memory for two runs, so that each turn was a separate run."""
    rounds: tuple[Round, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the runs."""
        if self.alone:
            return (
                "The memory of the device is too small for two runs of the script: each turn was a separate run.",
            )
        if not self.restarts:
            return ()
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return (f"A run ended during the measurement and was restarted, {times} in total.",)


class Measuring(Protocol):
    """Something that measures as ``measure`` does."""

    def __call__(
        self,
        base: CaptureRequest,
        changed: CaptureRequest,
        effort: Effort,
        *,
        words: str = "",
        progress: ProgressCallback,
        cancel: threading.Event | None = None,
        starter: Starter = start_fresh,
    ) -> Measured:
        """The measurement. Raises the exceptions of ``measure``."""
        ...


def measure(
    base: CaptureRequest,
    changed: CaptureRequest,
    effort: Effort,
    *,
    words: str = "",
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
    with_null: bool = True,
    marks_change: bool = True,
    enough: Callable[[Sequence[Round]], bool] = lambda done: False,
) -> Measured:
    """Start the script, its change and the script again, and let each compute in turn, round by round.

    ``words`` describe the change. Raises the exceptions of ``capture``, marked if the change failed and
    ``marks_change``. Without ``with_null``, the script is not started again, and its null compares its turns
    before and after one turn of the change. The rounds end early once those so far are ``enough``. No process
    remains.
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

    mark = _of_the_change if marks_change else _as_it_is
    with ExitStack() as stack:
        runs = [
            stack.enter_context(HeldRun(ScriptLauncher(request, cancel=cancel, starter=starter), pace))
            for request in ((base, changed, base) if with_null else (base, changed))
        ]
        progress(Progress("launch", "starting the script and the change", 0.02))
        for run in runs:
            run.launch()
        # They import PyTorch in parallel but warm up one by one, because together they would compete for
        # cores.
        sharing = Sharing.TOGETHER
        for number, (run, what) in enumerate(zip(runs, _NAMES, strict=False)):
            progress(Progress("warm up", what, 0.05 + _WARMED_UP * number / len(runs)))
            sharing = _warmed_up(run, runs, sharing, mark)
            if run is runs[0]:
                for other in runs[1:]:
                    other.cut_like(run.ready)
        alone = sharing is Sharing.ALONE
        # The number of iterations per cycle that the slower loader needs suits the others too.
        cycle = max(run.cycle for run in runs)
        for run in runs:
            run.cycle = cycle
        first, change = runs[:2]
        rounds = in_turns(
            first,
            (_Changed(change, mark),),
            runs[2] if with_null else None,
            rounds=effort.rounds,
            deadline=deadline,
            wakes=not alone,
            enough=enough,
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
            rounds,
        )


_NO_ROOM = "out of memory"
"""Part of PyTorch's error message on every device."""
_NAMES = ("the script", "the script with the change", "the script again, for the null")


def _warmed_up(run: HeldRun, runs: Sequence[HeldRun], sharing: Sharing, mark: _Mark) -> Sharing:
    """Warm up a run, and determine how all of them share the device.

    The memory of the first run decides. If a later run still finds no memory, it gets the device to itself.
    """

    def warm_up() -> None:
        if run is runs[1]:
            mark(run.warm_up)
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
    """The run with the change; its failures are marked."""

    run: HeldRun
    mark: _Mark

    def turn(self) -> Turn | None:
        return self.mark(self.run.turn)


class _Mark(Protocol):
    """An action with the changed script whose failures are marked."""

    def __call__(self, action: Callable[[], _Result]) -> _Result: ...


def _as_it_is(action: Callable[[], _Result]) -> _Result:
    return action()


def _of_the_change(action: Callable[[], _Result]) -> _Result:
    """Mark an error as one of the change; the script ran without it."""
    try:
        return action()
    except Cancelled:
        raise
    except ScriptFailed as error:
        failed = ScriptFailed(
            f"{_CHANGED}: {error.message}",
            traceback=error.traceback,
            hint=f"{error.hint} {_CHANGED}; without it, the script ran. Nothing on disk was changed.".lstrip(),
            file=error.file,
            line=error.line,
        )
        failed.of_change = True
        failed.is_told = error.is_told
        raise failed from error
    except SkylineError as error:
        error.message = f"With the change: {error.message}"
        error.of_change = True
        raise
