"""Memory that is given out shows, whether the process grows by it or not."""

from __future__ import annotations

import ctypes

import pytest

from skyline.capture.child.recording import heap


def test_small_blocks_count_while_they_are_held() -> None:
    if not heap.used_bytes():
        pytest.skip("the C library does not tell")
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    before = heap.used_bytes()
    blocks = [library.malloc(10_000) for _ in range(300)]
    held = heap.used_bytes() - before
    for block in blocks:
        library.free(block)
    assert 3_000_000 <= held < 6_000_000
    assert heap.used_bytes() - before < 1_000_000
