"""Ctrl+C while a run is being ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("no_process_left_behind")]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system interrupts no call after a time")
def test_a_second_ctrl_c_leaves_no_folder(script: Callable[..., Path]) -> None:
    child = ScriptLauncher(CaptureRequest(script=script("import time\ntime.sleep(600)\n"))).launch()
    folder = child.scratch
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        with pytest.raises(KeyboardInterrupt):
            child.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert not folder.exists()
