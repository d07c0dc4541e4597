"""A recorder of kernels that stays attached to the process and slows it: no time may contain it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.warm_pool import WarmPool
from skyline.interval import median
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

SLOWED_MS = 40.0


def test_bare_iterations_come_before_the_recording(scripts: Path, profiled: Callable[..., Profile]) -> None:
    profile = profiled(scripts / "attached.py", options={"batch_points": 0})
    assert median(profile.times.steps_ms) < SLOWED_MS
    assert median(profile.paired_ms) > SLOWED_MS, "the recording is set against iterations that are as slow"


def test_a_script_that_would_end_meanwhile_is_recorded_all_the_same(
    scripts: Path, profiled: Callable[..., Profile]
) -> None:
    words = ("--steps", "150", "--uneven-ms", "15")
    profile = profiled(scripts / "attached.py", *words, options={"batch_points": 0})
    assert median(profile.times.steps_ms) < SLOWED_MS
    assert len(profile.recorded_ms) > 1
    assert not any("few could be measured" in note for note in profile.notes)


def test_held_runs_need_no_recorder_for_their_memory(
    scripts: Path, requested: Callable[..., CaptureRequest], starters: WarmPool
) -> None:
    request = requested(scripts / "attached.py")
    with HeldRun(ScriptLauncher(request, starter=starters.start)) as run:
        run.warm_up()
        turn = run.turn()
    assert turn is not None
    assert turn.typical_ms < SLOWED_MS
    assert run.peak_bytes
    assert run.room is not None
