"""One session of measurements with a time limit; it continues where the previous one stopped."""

from __future__ import annotations

import json
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count as count_from
from math import prod
from pathlib import Path
from typing import Any

from skyline.calibrate.case import Case
from skyline.calibrate.case_order import Design, ordered_cases
from skyline.calibrate.designs import designs
from skyline.calibrate.machine import TIMING, CalibratedDevice, processor
from skyline.calibrate.store import CaseTime, alone, append, path_of, read
from skyline.errors import CaptureImpossible, UsageError
from skyline.lazy_dataclass import dataclass

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


_KEPT_EVERY_S = 1.0
_MOST_REPEATED = 10_000
"""Number of consecutive already measured cases that ends the session: no new cases remain."""
_REFERENCE = Case("mm", (("k", 512), ("m", 512), ("n", 512)))
_REFERENCE_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class SessionResult:
    """The result. ``drift`` is the slowest time of a fixed product relative to the fastest.

    ``set_aside`` is the new name of an earlier file of the same name from another machine or PyTorch.
    """

    machine: CalibratedDevice
    path: Path
    measured: int
    failed: int
    before: int
    drift: float
    set_aside: Path | None = None


def run_session(
    interpreter: str,
    device: str,
    minutes: float,
    *,
    progress: Callable[[float, int, CalibratedDevice], None],
    cancel: threading.Event | None = None,
) -> SessionResult:
    """Measure for a number of minutes. Results are written every second, so that a kill loses little.

    Raises:
        CaptureImpossible: the interpreter has no PyTorch, or not that device.
        UsageError: the results cannot be written.
    """
    cancel = cancel or threading.Event()
    asked = time.monotonic()
    with ExitStack() as stack:
        process = stack.enter_context(MeasuringProcess(interpreter, device))
        begin = time.monotonic()
        # The start of PyTorch counts as well, unless it would leave too little time to measure.
        end = begin + minutes * 60 - min(begin - asked, minutes * 6)
        machine = _machine(process, device)
        path = path_of(machine)
        stack.enter_context(alone(path))
        set_aside = _set_aside(path, machine)
        # Check at the start, not after a minute of work, that the file is writable.
        append(path, machine, ())
        known = {one.case.key for one in read(path)[1]}
        before, measured, failed, repeated = len(known), 0, 0, 0
        waiting: list[CaseTime] = []
        references: list[float] = []
        kept = looked = begin
        try:
            for case in ordered_cases(
                _formats(process, device), _threads(machine), _designs(process, device)
            ):
                now = time.monotonic()
                if now >= end or cancel.is_set() or repeated > _MOST_REPEATED:
                    break
                if case.key in known:
                    repeated += 1
                    continue
                repeated = 0
                if not references or now - looked > _REFERENCE_EVERY_S:
                    looked = now
                    references += [time_us for time_us in [process.measure(_REFERENCE).time_us] if time_us]
                one = process.measure(case)
                known.add(case.key)
                measured, failed = measured + (one.time_us is not None), failed + (one.time_us is None)
                waiting.append(one)
                if now - kept > _KEPT_EVERY_S:
                    append(path, machine, waiting)
                    waiting.clear()
                    kept = now
                progress(min(1.0, (now - begin) / (end - begin)), before + measured, machine)
        finally:
            if waiting:
                append(path, machine, waiting)
    drift = max(references) / min(references) - 1 if references else 0.0
    return SessionResult(machine, path, measured, failed, before, drift, set_aside)


def _set_aside(path: Path, machine: CalibratedDevice) -> Path | None:
    """Move a file aside that is damaged, or from another machine of this name, PyTorch or timing method."""
    if not path.exists():
        return None
    try:
        before, _ = read(path)
    except UsageError:
        before = None
    if before is not None and _comparable(before) == _comparable(machine):
        return None
    aside = next(name for count in count_from(1) if not (name := path.with_suffix(f".csv.{count}")).exists())
    path.rename(aside)
    return aside


def _comparable(machine: CalibratedDevice) -> tuple[object, ...]:
    return machine.torch, machine.cache_bytes, machine.timing


def machine_here(interpreter: str, device: str) -> CalibratedDevice:
    """The machine that would be measured.

    Raises:
        CaptureImpossible: the interpreter has no PyTorch, or not that device.
    """
    with MeasuringProcess(interpreter, device) as process:
        return _machine(process, device)


def _machine(process: MeasuringProcess, device: str) -> CalibratedDevice:
    facts = process.facts
    if device == "cpu":
        return replace(processor(facts.threads, facts.torch), timing=TIMING[device])
    major, minor = facts.gpu["capability"]
    return CalibratedDevice(
        str(facts.gpu["name"]),
        device,
        facts.threads,
        int(facts.gpu["memory_bytes"]),
        torch=facts.torch,
        multiprocessors=int(facts.gpu["multiprocessors"]),
        capability=(int(major), int(minor)),
        timing=TIMING[device],
    )


def _designs(process: MeasuringProcess, device: str) -> tuple[Design, ...]:
    tf32 = "tf32" in _formats(process, device)
    return designs(device, eight_bits=bool(process.facts.gpu.get("fp8")), tf32=tf32)


def _formats(process: MeasuringProcess, device: str) -> tuple[str, ...]:
    """Number formats, the most common first."""
    if device == "cpu":
        return "fp32", "bf16"
    return ("fp32", "bf16", "tf32", "fp16") if process.facts.gpu.get("bf16") else ("fp32", "fp16")


def _threads(machine: CalibratedDevice) -> tuple[int, ...]:
    """Numbers of threads: PyTorch's own, then a single one."""
    return (0, 1) if machine.device == "cpu" and machine.threads > 1 else (0,)
