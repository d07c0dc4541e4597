"""What is measured against the same script without Skyline: its time, its peak, its state, its children."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.spread import median
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

HOST_MS = (0, 5, 10)
"""The device is busy for longer than the host in each of these: an iteration takes what its clock says."""


@pytest.fixture(scope="module")
def gpu() -> dict[str, float]:
    return {"kernel_us": 1200}


def test_an_iteration_takes_what_it_takes_without_us(
    scripts: Path, gpu: dict[str, float], run_alone: Callable, profiled: Callable[..., Profile]
) -> None:
    alone = run_alone(scripts / "plain.py", "--steps", "25", "--host-ms", *map(str, HOST_MS), **gpu)
    assert alone.code == 0, alone.err
    (peak,) = alone.figures("peak:")
    for host_ms, free_ms in zip(HOST_MS, alone.figures("ms a step:"), strict=True):
        profile = profiled(scripts / "plain.py", "--host-ms", str(host_ms), options={"steps": 12}, **gpu)
        assert median(profile.times.steps_ms) == pytest.approx(free_ms, rel=0.05), host_ms
        assert profile.peak_bytes == pytest.approx(peak, rel=0.02)


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
