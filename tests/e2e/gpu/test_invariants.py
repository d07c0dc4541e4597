"""What holds of every recording of a GPU, for scripts in the styles that people write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

STYLES = {
    "plain": {"kernel_us": 300},
    "prefetcher": {"kernel_us": 300},
    "amp": {"kernel_us": 150},
    "captured": {"kernel_us": 300},
    "own_kernels": {"kernel_us": 150},
}


@pytest.mark.parametrize("style", STYLES)
def test_a_recording_holds_all_time_once_and_ties_every_kernel_to_its_line(
    style: str, scripts: Path, profiled: Callable[..., Profile], held: Callable
) -> None:
    profile = profiled(scripts / f"{style}.py", **STYLES[style])
    assert profile.environment.device.kind == "cuda"
    found = held(profile)

    found.check()
