"""The examples under other versions of PyTorch, each in an interpreter of its own.

``SKYLINE_OTHER_PYTHONS`` lists interpreters, with colons between them; without it there is nothing to do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.trace.trial import batch_trials

pytestmark = [pytest.mark.capture, pytest.mark.long]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PYTHONS = [path for path in os.environ.get("SKYLINE_OTHER_PYTHONS", "").split(os.pathsep) if path]


@pytest.mark.skipif(not PYTHONS, reason="SKYLINE_OTHER_PYTHONS lists no interpreters")
@pytest.mark.parametrize("example", ["image_classifier.py", "recommender.py", "small_gpt.py"])
@pytest.mark.parametrize("python", PYTHONS)
def test_an_example_is_profiled(
    python: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    request = CaptureRequest(
        EXAMPLES / example,
        ("--device", "cpu"),
        interpreter=python,
        working_directory=tmp_path,
        steps=4,
        settle_s=0.5,
        batch_points=1,
    )
    profile = capture(request, progress=lambda _: None)
    analysis = analyse(profile)
    assert profile.environment.device.kind == "cpu"
    assert batch_trials(profile.trials)
    assert profile.peak_bytes > 1 << 20
    assert analysis.replay_error < 0.05
    phases = analysis.phases
    assert min(phases.forward, phases.backward, phases.optimizer) > 0
    # The model's lines have their way there and back, and hardly anything is left without a line.
    unattributed = sum(line.share for line in analysis.lines if not line.file)
    assert unattributed < 0.05
    assert sum(1 for line in analysis.lines if line.forward_ms > 0 and line.backward_ms > 0) >= 3
