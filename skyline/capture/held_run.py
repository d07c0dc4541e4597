"""A run that is warmed up once and then computes in turns: between them all of its processes stand still."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.device_room import DeviceRoom, Sharing
from skyline.capture.ended_early import too_few
from skyline.capture.events import Ready
from skyline.capture.load_meter import busy_s
from skyline.capture.process import Starter, start_fresh
from skyline.capture.recording import record
from skyline.capture.request import CaptureRequest, OutputCallback, Progress
from skyline.capture.rounds import release
from skyline.capture.script_runs import ScriptRuns
from skyline.errors import CaptureImpossible

TURN_S = 0.7
"""How long a turn is, where iterations are short enough."""
_LONG_STEP_MS = 2_000.0
_MOST_PER_TURN = 240
_LEAST_PER_TURN = 3
_LEAST_LONG_STEPS = 2
_RECORDED = 2
_TAKEN_BY_RECORDING = 4
"""Iterations that pass while the memory of two is recorded."""
_SHORT_RUN = 24
"""A script with no more iterations than this is warmed up for one of them only."""
_MOST_LIVES = 40
_ALONE_TURNS = 4
"""How many times as long a turn is for which the script is started anew."""
_TURNS_PER_LIFE = 4
"""As many turns as a script that ends is made to last for, where it has the iterations."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn showed: its typical iteration, every iteration in ms, and how many cores others kept busy."""

    typical_ms: float
    steps_ms: tuple[float, ...]
    others_cores: float


class HeldRun(ScriptRuns):
    """One run of a script beside others, started, warmed up and stopped; ``turn`` lets it compute for a moment.

    A script that comes to its end is started again for its next turn. Everything raises what ``capture`` raises.
    """

    _request: CaptureRequest

    def __init__(
        self,
        request: CaptureRequest,
        *,
        turn_s: float = TURN_S,
        output: OutputCallback | None = None,
        cancel: threading.Event | None = None,
        starter: Starter = start_fresh,
    ) -> None:
        super().__init__(request, _unheard, output, cancel or threading.Event(), starter)
        self._turn_s = turn_s
        self._child: ChildProcess | None = None
        self._ready: Ready | None = None
        self._typical_ms = 0.0
        self._used = 0
        """Iterations of this life of the script."""
        self._total: int | None = None
        """How many it has, once it has ended for the first time."""
        self._lives = 0
        self._warmup = request.warmup
        self.peak_bytes: int | None = None
        """Peak of live tensor memory in an iteration; None where it ended too soon to be recorded."""
        self.room: DeviceRoom | None = None
        """What it leaves of its device; None on a CPU, and where it ended too soon to be recorded."""
        self._sharing = Sharing.TOGETHER
        self.cycle = 1
        """Over how many iterations a typical one is formed: see ``typical_ms``."""

    def __enter__(self) -> HeldRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ready(self) -> Ready:
        """What the run showed of itself at the end of its warm-up."""
        assert self._ready is not None
        return self._ready

    @property
    def lives(self) -> int:
        """How often the script was started."""
        return self._lives

    def launch(self) -> None:
        """Start the process and have it import PyTorch; returns before that is done."""
        self._child = self._launch(quiet=self._lives > 0)
        self._child.send("prepare")

    def warm_up(self) -> None:
        """Run until step times have settled, record the memory of two iterations, and stand still."""
        if self._child is None:
            self.launch()
        try:
            self._begin(recorded=True)
        except ScriptEnded as ended:
            # Spend its iterations sparingly: the warm-up of a long run, and the recording, took all there are.
            self._learn(ended)
            self._begin_again()
        self._rest()

    def share(self, sharing: Sharing) -> None:
        """Get by with the device in this way from now on; what it holds now beyond that, it gives up."""
        if sharing is not self._sharing:
            self._sharing = sharing
            self._turn_s *= _ALONE_TURNS if sharing is Sharing.ALONE else 1
            self._rest()

    def turn(self) -> Turn:
        """Go on for a moment, or for two iterations at least, and stand still again."""
        if self._child is None:
            self._begin_again()
        done = self._next_turn()
        self._rest()
        return done

    def _rest(self) -> None:
        child = self._child
        if child is None or self._ready is None:
            return
        if self._sharing is Sharing.ALONE:
            self.close()
        elif self._sharing is Sharing.RELEASING:
            child.go_on()
            release(child)
            child.stop()

    def _next_turn(self) -> Turn:
        while True:
            iterations = self._per_turn()
            if self._left() <= iterations:
                iterations = self._left() - 1
            if iterations < 1:
                self._begin_again()
                continue
            try:
                return self._turn(iterations)
            except ScriptEnded as ended:
                self._learn(ended)
                self._begin_again()

    def close(self) -> None:
        """End the run and everything it started."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _turn(self, iterations: int) -> Turn:
        child = self._child
        assert child is not None
        child.go_on()
        busy, own, began = busy_s(), child.cpu_s(), time.monotonic()
        # Another run had the caches in between: the first iteration of a turn warms them again.
        rows = run_bare(child, iterations + 1)
        elapsed = time.monotonic() - began
        others = (busy_s() - busy - (child.cpu_s() - own)) / max(elapsed, 1e-3)
        child.stop()
        self._used += len(rows)
        steps = tuple(row.step_ms for row in rows[1:])
        self._typical_ms = typical_ms(steps, self.cycle)
        return Turn(self._typical_ms, steps, max(0.0, others))

    def _per_turn(self) -> int:
        step_ms = max(self._typical_ms, 0.01)
        least = _LEAST_LONG_STEPS if step_ms > _LONG_STEP_MS else _LEAST_PER_TURN
        most = _MOST_PER_TURN
        if self._total is not None:
            # Starting it again costs more than a longer turn brings.
            most = min(most, (self._total - self.ready.warmup) // _TURNS_PER_LIFE - 1)
        wanted = max(least * self.cycle, min(most, round(self._turn_s * 1e3 / step_ms)))
        return -(-wanted // self.cycle) * self.cycle

    def _left(self) -> int:
        """Iterations that this life of the script still has; very many where that is not known."""
        return 1 << 30 if self._total is None else self._total - self._used

    def _learn(self, ended: ScriptEnded) -> None:
        self._total = ended.ended.boundaries
        if self._total <= _SHORT_RUN:
            self._warmup = 1
        if self._total < _LEAST_PER_TURN:
            raise too_few(ended.ended) from None
        if self._lives >= _MOST_LIVES:
            raise CaptureImpossible(
                f"The script was started {self._lives} times and ended each time",
                hint="Give it more iterations or more data for the verification.",
            ) from None

    def _begin_again(self) -> None:
        self.close()
        self.launch()
        try:
            self._begin(recorded=self.peak_bytes is None and self._left_for_recording())
        except ScriptEnded as ended:
            raise too_few(ended.ended) from None

    def _left_for_recording(self) -> bool:
        return self._total is not None and self._total > _TAKEN_BY_RECORDING + _LEAST_PER_TURN + 1

    def _begin(self, *, recorded: bool) -> None:
        child = self._child
        assert child is not None
        self._lives += 1
        self._used = 0
        if self._warmup != self._request.warmup:
            self._request = replace(self._request, warmup=self._warmup)
        self._start(child)
        ready, step_ms = self._await_ready(child, quiet=True)
        self._ready = ready
        self._used = ready.warmup + 1
        self._typical_ms = self._typical_ms or step_ms
        self.cycle = max(1, *(loader.num_workers for loader in ready.facts.loaders), 1)
        if recorded:
            recording = record(child, _RECORDED, with_stacks=False)
            self.peak_bytes = recording.peak_bytes
            if recording.device_memory is not None:
                fixed_bytes = recording.memory.total_bytes
                self.room = DeviceRoom.of(recording.device_memory, fixed_bytes, recording.peak_bytes)
            self._used += _TAKEN_BY_RECORDING
        child.stop()


def typical_ms(steps_ms: Sequence[float], cycle: int) -> float:
    """The median over groups of ``cycle`` iterations that follow each other, of their mean.

    With one loader worker, or none, that is the median iteration. Several workers deliver their batches in bursts:
    of ``n`` iterations one waits and the others find their batch there, and only their mean says how fast it goes.
    """
    whole = len(steps_ms) - len(steps_ms) % cycle
    if whole < cycle or whole == 0:
        return statistics.fmean(steps_ms)
    return statistics.median(
        statistics.fmean(steps_ms[index : index + cycle]) for index in range(0, whole, cycle)
    )


def _unheard(progress: Progress) -> None:
    """The whole verification reports its progress, not each run of it."""
