"""Several runs of scripts that take turns on one machine: all alive, one computing, the others stopped.

Two timings in two processes one after the other differ by ten per cent and more on a shared machine, whatever is
timed. In short turns, what slows one slows the others too, and ratios within a round mean something.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

HAND_TIMER = Path(__file__).with_name("hand_timer.py")
WARMUP = 4
"""Steps left out at the beginning: libraries choose their kernels and the allocator grows."""
TURN_S = 0.6
_STEPS_PER_TURN = 4
_START_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True)
class TimedScript:
    """A script with its arguments and the interpreter that runs it, in the script's folder.

    ``stamps`` is how many optimizer steps make one iteration: two in most GANs.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    interpreter: str = sys.executable
    folder: Path | None = None
    stamps: int = 1

    @property
    def name(self) -> str:
        """The script with its folder, as tables show it."""
        return f"{self.script.parent.name}/{self.script.name}"


class Runner(Protocol):
    """Something that can be given a turn."""

    def turn_ms(self) -> float | None:
        """The median step of a turn, in ms; None once the script has ended."""
        ...


class HandTimed:
    """A script under the hand timer; between turns its whole process group is stopped."""

    def __init__(self, subject: TimedScript) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._stamps = Path(self._folder.name) / "stamps"
        self._stamps.touch()
        self._per_iteration = subject.stamps
        self._process = subprocess.Popen(
            [
                subject.interpreter,
                str(HAND_TIMER),
                str(self._stamps),
                str(subject.script),
                *subject.arguments,
            ],
            cwd=subject.folder or subject.script.parent,
            # A script may ask the terminal for its size; in a session of its own it cannot be stopped by it.
            stdin=None if sys.stdin is not None and sys.stdin.isatty() else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._warm_up(subject)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> HandTimed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the script's process."""
        return self._process.pid

    @property
    def steps(self) -> int:
        """How many iterations it has done."""
        return len(self._read()) // self._per_iteration

    def turn_ms(self) -> float | None:
        """Let it run for a moment, and for a few steps at least."""
        begin = time.monotonic()
        if self._process.poll() is not None:
            return None
        os.killpg(self._process.pid, signal.SIGCONT)
        while True:
            time.sleep(TURN_S)
            inside = [stamp for stamp in self._read() if stamp > begin]
            if len(inside) > _STEPS_PER_TURN * self._per_iteration or self._process.poll() is not None:
                break
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGSTOP)
        # The first stamp ends a step that began before the pause; each later one ends a step of this turn.
        inside = inside[:: self._per_iteration]
        steps = [(after - before) * 1e3 for before, after in pairwise(inside)]
        return statistics.median(steps) if len(steps) >= _STEPS_PER_TURN else None

    def close(self) -> None:
        """End the script and its workers."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._folder.cleanup()

    def _warm_up(self, subject: TimedScript) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while len(self._read()) < WARMUP:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{subject.name} did not get to {WARMUP} steps under the hand timer")
            time.sleep(0.05)
        os.killpg(self._process.pid, signal.SIGSTOP)

    def _read(self) -> list[float]:
        return [float(line) for line in self._stamps.read_text(encoding="ascii").splitlines()]


@dataclass(frozen=True, slots=True)
class Round:
    """One round in ms per step: the base, each contender, the base again in a run of its own."""

    before_ms: float
    contenders_ms: Mapping[str, float]
    after_ms: float

    @property
    def null(self) -> float:
        """The second base over the first: one, on a steady machine."""
        return self.after_ms / self.before_ms

    def ratio(self, name: str) -> float:
        """A contender over the mean of the two bases around it."""
        return self.contenders_ms[name] / ((self.before_ms + self.after_ms) / 2)


def in_turns(base: Runner, contenders: Mapping[str, Runner], again: Runner, rounds: int) -> Sequence[Round]:
    """So many rounds, fewer where a script ends; a first one wakes everything up and is thrown away."""
    done: list[Round] = []
    for number in range(rounds + 1):
        before = base.turn_ms()
        times = {name: runner.turn_ms() for name, runner in contenders.items()}
        after = again.turn_ms()
        measured = {name: step for name, step in times.items() if step is not None}
        if before is None or after is None or not measured:
            break
        if number:
            done.append(Round(before, measured, after))
    return done
