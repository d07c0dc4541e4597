"""Recordings of a real GPU pass the checks of every recording, and are still read and answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.trace import store

KEPT = sorted((Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_h200").glob("*.profile.json.gz"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_of_a_real_gpu_holds(path: Path) -> None:
    from recording_check import RecordingCheck

    profile = store.load(path)
    assert RecordingCheck.of(profile).misses() == []
    assert profile.environment.device.kind == "cuda"
    assert analyse(profile).baseline.gpu_recorded


def test_there_are_recordings() -> None:
    assert len(KEPT) >= 6
