"""A GPU that tells nothing, one that is nearly full, and the second of two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.interval import median
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]


def test_without_cupti_no_gpu_is_said_to_be_idle(scripts: Path, profiled: Callable[..., Profile]) -> None:
    analysis = analyse(profiled(scripts / "bound.py", "device", kernel_us=300, cupti=0))
    assert not any("GPU is busy" in finding.title for finding in analysis.findings)
    assert any("none of the GPU's work" in note for note in analysis.notes)


def test_a_model_over_half_of_the_card_has_its_curve(
    scripts: Path, profiled: Callable[..., Profile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two such runs do not fit on the card at the same time: one after the other, they do."""
    monkeypatch.setenv("SIMULATED_GPU_CARD", str(tmp_path / "card"))
    profile = profiled(scripts / "large.py", options={"batch_points": 1}, kernel_us=100, memory_mb=256)
    assert profile.trials, profile.notes
    assert profile.peak_bytes > 140 << 20


def test_the_stages_of_a_model_on_two_devices_are_timed_recorded_and_added_up(
    scripts: Path,
    run_alone: Callable,
    profiled: Callable[..., Profile],
    misses: Callable[[Profile], list[str]],
) -> None:
    # The devices are busy for much longer than the host, however little of the processor that gets.
    gpu = {"kernel_us": 4000, "devices": 2}
    profile = profiled(scripts / "two_stages.py", options={"steps": 12}, **gpu)
    alone = run_alone(scripts / "two_stages.py", "25", **gpu)
    assert alone.code == 0, alone.err
    assert misses(profile) == []
    lanes = {record.lane.partition(":")[0] for record in profile.trace.records}
    assert {"gpu0", "gpu1"} <= lanes
    assert median(profile.times.steps_ms) == pytest.approx(alone.figures("ms a step:")[0], rel=0.05)
    assert profile.peak_bytes == pytest.approx(alone.figures("peak:")[0], rel=0.02)


def test_the_second_of_two_devices_is_waited_for_and_its_memory_told(
    scripts: Path, profiled: Callable[..., Profile]
) -> None:
    profile = profiled(scripts / "large.py", "cuda:1", kernel_us=1500, devices=2)
    assert profile.peak_bytes > 140 << 20
    assert min(profile.times.steps_ms) > 10
