"""Measurements against the same script without Skyline: its time, its peak, its state, its children."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.warm_pool import WarmPool
from skyline.spread import median
from skyline.trace.profile import Profile
from skyline.trace.trial import batch_trials

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

HOST_MS = (0, 5, 10)
"""The device is busy for longer than the host in each of these: an iteration takes what its clock says."""
BUSY = {"kernel_us": 2000}
"""Long enough that a host which gets a fraction of the processor stays ahead."""
HOST_BOUND = (100, {"kernel_us": 100})


@dataclass(frozen=True, slots=True)
class Free:
    """Time of an iteration without Skyline, by a run before and one after, and its peak in bytes."""

    before_ms: float
    after_ms: float
    peak_bytes: float

    def has(self, found_ms: float) -> bool:
        """Whether a time is within 5 % of these two: on a shared machine they differ."""
        low, high = sorted((self.before_ms, self.after_ms))
        return 0.95 * low <= found_ms <= 1.05 * high


@pytest.fixture
def beside(scripts: Path, run_alone: Callable) -> Callable[..., tuple[Any, Free]]:
    """Does something between two runs of the plain script by itself."""

    def run(host_ms: float, gpu: dict[str, float]) -> tuple[float, float]:
        ran = run_alone(scripts / "plain.py", "--steps", "15", "--host-ms", str(host_ms), **gpu)
        assert ran.code == 0, ran.err
        return ran.figures("ms a step:")[0], ran.figures("peak:")[0]

    def done(host_ms: float, gpu: dict[str, float], act: Callable[[], Any]) -> tuple[Any, Free]:
        before_ms, peak_bytes = run(host_ms, gpu)
        found = act()
        after_ms, _ = run(host_ms, gpu)
        return found, Free(before_ms, after_ms, peak_bytes)

    return done


@pytest.mark.parametrize(("host_ms", "gpu"), [*((each, BUSY) for each in HOST_MS), HOST_BOUND])
def test_an_iteration_takes_what_it_takes_without_us(
    host_ms: float, gpu: dict[str, float], scripts: Path, beside: Callable, profiled: Callable[..., Profile]
) -> None:
    """Three that the device bounds, and one that the host bounds."""
    words = ("--host-ms", str(host_ms))
    profile, free = beside(
        host_ms, gpu, lambda: profiled(scripts / "plain.py", *words, options={"steps": 12}, **gpu)
    )
    found_ms = median(profile.times.steps_ms)
    assert free.has(found_ms), (found_ms, free)
    assert profile.peak_bytes == pytest.approx(free.peak_bytes, rel=0.02)


def test_the_base_of_a_curve_takes_what_it_takes_without_us(
    scripts: Path, beside: Callable, profiled: Callable[..., Profile]
) -> None:
    """Its own batch size; another one takes as long, since each kernel does whatever it computes."""
    options = {"steps": 12, "batch_points": 1}
    words = ("--host-ms", "10")
    profile, free = beside(10, BUSY, lambda: profiled(scripts / "plain.py", *words, options=options, **BUSY))
    found_ms = median(profile.times.steps_ms)
    assert free.has(found_ms), (found_ms, free)
    [other] = batch_trials(profile.trials).values()
    assert median(other.ratios) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(("host_ms", "gpu"), [(10, BUSY), HOST_BOUND])
def test_a_turn_of_a_held_run_takes_what_it_takes_without_us(
    host_ms: float,
    gpu: dict[str, float],
    scripts: Path,
    beside: Callable,
    requested: Callable[..., CaptureRequest],
    starters: WarmPool,
) -> None:
    request = requested(scripts / "plain.py", "--host-ms", str(host_ms), **gpu)

    def turn_ms() -> float:
        with HeldRun(ScriptLauncher(request, starter=starters.start)) as run:
            run.warm_up()
            turns = [run.turn() for _ in range(3)]
        return median([turn.typical_ms for turn in turns if turn is not None])

    found_ms, free = beside(host_ms, gpu, turn_ms)
    assert free.has(found_ms), (found_ms, free)


def test_the_script_is_in_the_state_that_it_would_be_in(
    scripts: Path, run_alone: Callable, profiled: Callable[..., Profile]
) -> None:
    """Random numbers, the scaler, running means and the optimizer; and a child that it forked can use the GPU."""
    alone = run_alone(scripts / "state.py", "300")
    said: list[str] = []
    profiled(scripts / "state.py", "100000", options={"warmup": 3, "device": "cuda"}, output=said)
    told = [line for line in "".join(said).splitlines() if line.startswith(("child", "state"))]
    expected = alone.out.splitlines()
    # Warm-up, bare iterations and recordings; the last line may have been cut off when the run was ended.
    assert len(told) > 15
    assert told[0] == "child 0"
    assert told[:-1] == expected[: len(told) - 1]
