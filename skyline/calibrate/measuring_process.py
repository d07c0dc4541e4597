"""The measuring process: the user's interpreter, restarted if an operator crashes it."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from skyline.calibrate.case import Case
from skyline.calibrate.store import CaseTime
from skyline.errors import CaptureImpossible

_CHILD = Path(__file__).parent / "child" / "__main__.py"
_START_TIMEOUT_S = 120.0
_CASE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The description of the measuring process: PyTorch, threads, and its GPU."""

    torch: str
    threads: int
    gpu: Mapping[str, Any]


class MeasuringProcess:
    """Measures case by case. A crash or a timeout loses only its own case."""

    def __init__(self, interpreter: str, device: str) -> None:
        self._command = [interpreter, "-I", str(_CHILD), device]
        self._interpreter = interpreter
        self._process: subprocess.Popen[str] | None = None
        self.facts = self._start()

    def __enter__(self) -> MeasuringProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(self, case: Case) -> CaseTime:
        """The time of the case, or the reason why there is none."""
        if self._process is None:
            self._start()
        sizes = dict(case.sizes)
        asked = {**case.columns(), "sizes": sizes, "bytes": 4 * prod(sizes.values())}
        answer = self._ask(json.dumps(asked), _CASE_TIMEOUT_S)
        if answer is None:
            self.close()
            return CaseTime(case, None, 0.0, "the process that measured it ended or did not answer")
        if "error" in answer:
            return CaseTime(case, None, 0.0, str(answer["error"]))
        return CaseTime(case, float(answer["time_us"]), float(answer["spread"]))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            self._process = None

    def _start(self) -> ProcessFacts:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        except OSError as error:
            raise CaptureImpossible(
                f"{self._interpreter} could not be started: {error.strerror or error}",
                hint="Choose another interpreter with --interpreter.",
            ) from error
        facts = self._ask(None, _START_TIMEOUT_S)
        if facts is None or "error" in facts:
            self.close()
            why = "it ended or did not answer" if facts is None else facts["error"]
            raise CaptureImpossible(
                f"PyTorch cannot be used in {self._interpreter}: {why}",
                hint="Name another interpreter with --interpreter.",
            )
        return ProcessFacts(str(facts["torch"]), int(facts["threads"]), facts)

    def _ask(self, line: str | None, timeout_s: float) -> dict[str, Any] | None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if line is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], timeout_s)
            answer = process.stdout.readline() if ready else ""
        except OSError:
            return None
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            return None
