"""Scripts under a hand timer in turns (``skyline.capture.turns``): one computes while the others are stopped."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from skyline.capture.turns import Turn

HAND_TIMER = Path(__file__).with_name("hand_timer.py")
WARMUP = 4
"""Steps left out at the beginning, while libraries choose their kernels and the allocator grows."""
TURN_S = 0.6
_STEPS_PER_TURN = 4
_START_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True)
class TimedScript:
    """A script with its arguments and its interpreter. It runs in the script's folder.

    ``stamps`` is the number of optimizer steps in one iteration: two in most GANs.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    interpreter: str = sys.executable
    folder: Path | None = None
    stamps: int = 1

    @property
    def name(self) -> str:
        """The script with its folder, as in tables."""
        return f"{self.script.parent.name}/{self.script.name}"


class HandTimed:
    """A script under the hand timer. Between turns its whole process group is stopped."""

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
            # A script may ask the terminal for its size. In its own session the terminal cannot stop it.
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
        """The id of the script's process."""
        return self._process.pid

    @property
    def steps(self) -> int:
        """The number of finished iterations."""
        return len(self._read()) // self._per_iteration

    def turn(self) -> Turn | None:
        """Let the script run for a moment and at least a few steps. None once the script has ended."""
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
        # The first stamp ends a step that began before the pause. Each later stamp ends a step of this turn.
        inside = inside[:: self._per_iteration]
        steps = [(after - before) * 1e3 for before, after in pairwise(inside)]
        return Turn(statistics.median(steps)) if len(steps) >= _STEPS_PER_TURN else None

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
