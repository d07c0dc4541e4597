"""The floor of convolutions: the error that remains after one factor between two GPUs."""

from __future__ import annotations

import pytest

SHAPES = [(1, 3, outputs, 3, 64) for outputs in range(1, 201)]


def test_one_factor_between_two_gpus_leaves_nothing() -> None:
    from convolution_floor import floor

    slow = {shape: 0.01 * shape[2] for shape in SHAPES}
    found = floor({"slow": slow, "fast": {shape: ms / 3 for shape, ms in slow.items()}}, "fast", "slow")
    assert (found.shapes, found.error) == (200, pytest.approx(0.0, abs=1e-9))


def test_what_one_gpu_alone_does_is_left() -> None:
    from convolution_floor import floor

    there = dict.fromkeys(SHAPES, 1.0)
    # A tenth of the calls takes twice as long on this GPU: half of their time is missed.
    here = {shape: 2.0 if shape[2] % 10 == 0 else 1.0 for shape in SHAPES}
    assert floor({"a": there, "b": here}, "b", "a").error == pytest.approx(0.05)
