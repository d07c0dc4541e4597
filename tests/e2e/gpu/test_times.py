"""Measurements against the same script without Skyline: its time, its peak, its state, its children."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.warm_pool import WarmPool
from skyline.interval import median
from skyline.trace.profile import Profile
from skyline.trace.trial import batch_trials

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

HOST_MS = (0, 10)
"""The device is busy for longer than the host in each of these: an iteration takes what its clock says."""
BUSY = {"kernel_us": 2000}
"""Long enough that a host which gets a fraction of the processor stays ahead."""
HOST_BOUND = (100, {"kernel_us": 100})
RUNS = (*((host_ms, BUSY) for host_ms in HOST_MS), HOST_BOUND)
WITH_CURVE = (10, BUSY)


Gpu = dict[str, float]


@dataclass(frozen=True, slots=True)
class Alone:
    """Time of an iteration without Skyline for each time of the host, and the peak in bytes."""

    by_host_ms: dict[float, float]
    peak_bytes: float


@pytest.fixture(scope="module")
def known() -> dict[str, Alone]:
    """The plain script by itself on each GPU, run once."""
    return {}


@pytest.fixture
def alone(scripts: Path, run_alone: Callable, known: dict[str, Alone]) -> Callable[..., Alone]:
    """The plain script by itself."""

    def run(gpu: Gpu, *, anew: bool = False) -> Alone:
        if anew or str(gpu) not in known:
            times = [host_ms for host_ms, on in RUNS if on == gpu]
            words = ("--steps", "15", "--host-ms", *map(str, times))
            ran = run_alone(scripts / "plain.py", *words, **gpu)
            assert ran.code == 0, ran.err
            by_host_ms = dict(zip(times, ran.figures("ms a step:"), strict=True))
            known[str(gpu)] = Alone(by_host_ms, ran.figures("peak:")[0])
        return known[str(gpu)]

    return run


@pytest.fixture
def as_alone(alone: Callable[..., Alone]) -> Callable[[float, float, Gpu], bool]:
    """True if a time is within 5 % of the script's by itself, before or, on a machine that drifts, after."""

    def agrees(found_ms: float, host_ms: float, gpu: Gpu) -> bool:
        before_ms = alone(gpu).by_host_ms[host_ms]
        if abs(found_ms / before_ms - 1) <= 0.05:
            return True
        low_ms, high_ms = sorted((before_ms, alone(gpu, anew=True).by_host_ms[host_ms]))
        return 0.95 * low_ms <= found_ms <= 1.05 * high_ms

    return agrees


@pytest.mark.parametrize(("host_ms", "gpu"), RUNS)
def test_an_iteration_takes_what_it_takes_without_us(
    host_ms: float,
    gpu: Gpu,
    scripts: Path,
    alone: Callable[..., Alone],
    as_alone: Callable[[float, float, Gpu], bool],
    profiled: Callable[..., Profile],
) -> None:
    """Two that the device bounds, one of them with another batch size, and one that the host bounds."""
    known = alone(gpu)
    curve = (host_ms, gpu) == WITH_CURVE
    options = {"steps": 12, "batch_points": 1 if curve else 0}
    profile = profiled(scripts / "plain.py", "--host-ms", str(host_ms), options=options, **gpu)
    assert as_alone(median(profile.times.steps_ms), host_ms, gpu), (profile.times.steps_ms, known)
    assert profile.peak_bytes == pytest.approx(known.peak_bytes, rel=0.02)
    idle = profile.from_idle
    assert idle is not None
    assert host_ms <= median(idle.host_ms) <= max(idle.steps_ms), idle
    if gpu == BUSY:
        # The host is done long before the device, whose work the iteration then waits for.
        assert median(idle.host_ms) < 0.9 * median(idle.steps_ms), idle
    if curve:
        # Another batch size takes as long, since each kernel does whatever it computes.
        [other] = batch_trials(profile.trials).values()
        assert median(other.ratios) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(("host_ms", "gpu"), [WITH_CURVE, HOST_BOUND])
def test_a_turn_of_a_held_run_takes_what_it_takes_without_us(
    host_ms: float,
    gpu: Gpu,
    scripts: Path,
    alone: Callable[..., Alone],
    as_alone: Callable[[float, float, Gpu], bool],
    requested: Callable[..., CaptureRequest],
    starters: WarmPool,
) -> None:
    known = alone(gpu)
    request = requested(scripts / "plain.py", "--host-ms", str(host_ms), **gpu)
    with HeldRun(ScriptLauncher(request, starter=starters.start)) as run:
        run.warm_up()
        turns = [run.turn() for _ in range(3)]
    found_ms = median([turn.typical_ms for turn in turns if turn is not None])
    assert as_alone(found_ms, host_ms, gpu), (found_ms, known)


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
