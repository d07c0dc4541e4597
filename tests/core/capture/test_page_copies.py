"""The time to write to memory that a fork shares."""

from __future__ import annotations

import sys

import pytest

from skyline.capture.page_copies import copied_us_per_mb


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_takes_longer_than_a_write(threads: int) -> None:
    # Memory is written at 100 GB/s at most, and 10 µs per MB are as many bytes.
    assert 10 < copied_us_per_mb(threads) < 1e6


def test_a_rate_that_cannot_be_measured_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/none/python")
    assert copied_us_per_mb(2) == 0.0
