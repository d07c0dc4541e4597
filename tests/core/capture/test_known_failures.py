"""The next step for failures of scripts whose cause is known."""

from __future__ import annotations

import pytest

from skyline.capture.ended_early import next_step


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "one release"),
        ("ModuleNotFoundError: No module named 'imageio.v3'", "no module imageio.v3"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "TMPDIR"),
        ("AssertionError: Torch not compiled with CUDA enabled", "--gpu h100"),
        ("ValueError: environment variable RANK expected, but not set", "torchrun"),
        ("KeyError: 'LOCAL_RANK'", "skyline.profile.launcher"),
        ("EOFError: EOF when reading a line", "from an argument"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "--gpu h100"),
    ],
)
def test_a_known_cause_has_a_next_step(message: str, words: str) -> None:
    assert words in next_step(message)


def test_an_unknown_one_has_none() -> None:
    assert next_step("ValueError: not a number") == ""
