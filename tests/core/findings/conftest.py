"""Subjects for rules: hand-made GPU scripts, and the project's own small recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.findings.registry import check
from skyline.trace.kineto.reader import read
from skyline.trace.profile import BareTimes, Profile
from skyline.trace.record import IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.recorded import recorded
from skyline.whatif.subject import Subject

DATA = Path(__file__).parents[2] / "data"
MAIN, STREAM = "main", "stream 7"
LAUNCH_US, LATENCY_US = 10.0, 5.0


@pytest.fixture(scope="session")
def traced() -> Subject:
    """Five steps of 1 ms on a GPU; see ``tests/data/make_traces.py``."""
    return recorded(read(DATA / "tiny_gpu.trace.json"))


@pytest.fixture(scope="session")
def checked() -> Callable[..., object]:
    """The finding of a rule in a profile, or in a given subject."""

    def found(rule, given):
        return check(rule, baseline(given) if isinstance(given, Profile) else given)

    return found


@pytest.fixture
def gpu_script(gpu_profile: Profile) -> Callable[..., Profile]:
    """Iterations that launch kernels, may wait for them, and go on in Python.

    ``kernels`` are (name, µs) pairs, each launched in 10 µs with ``python_us`` after it; a ``wait`` on the line of the
    print follows, then ``rest_us`` of Python.
    """

    def made(kernels, *, python_us=10.0, wait=True, rest_us=0.0, phase=Phase.FORWARD, iterations=4):
        records: list[Record] = []
        marks: list[IterationMark] = []
        clock = free = 0.0
        number = 0
        for index in range(iterations):
            begin = clock
            for name, took in kernels:
                number += 1
                records.append(
                    Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, index, clock, LAUNCH_US, 1,
                           correlation=number)
                )  # fmt: skip
                free = max(clock + LATENCY_US, free)
                records.append(
                    Record(name, RecordKind.KERNEL, phase, STREAM, index, free, took, 1, module=0,
                           correlation=number)
                )  # fmt: skip
                free += took
                clock += LAUNCH_US
                records.append(Record("python", RecordKind.PYTHON, phase, MAIN, index, clock, python_us, 1))
                clock += python_us
            if wait:
                took = max(0.0, free - clock) + 8
                records.append(
                    Record(
                        "cudaStreamSynchronize", RecordKind.RUNTIME, Phase.OTHER, MAIN, index, clock, took, 3
                    )
                )
                clock += took
            if rest_us:
                records.append(
                    Record("python", RecordKind.PYTHON, Phase.OTHER, MAIN, index, clock, rest_us, 3)
                )
                clock += rest_us
            marks.append(IterationMark(index, begin, clock))
        step_ms = (clock - marks[0].start_us) / iterations / 1e3
        return replace(
            gpu_profile,
            trace=Trace(tuple(marks), gpu_profile.trace.lines, ("Linear",), tuple(records)),
            times=BareTimes((step_ms,) * 9, (0.0,) * 9, (0.0,) * 9, (0.0,) * 9),
        )

    return made
