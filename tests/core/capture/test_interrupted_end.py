"""Ctrl+C while a run is being ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil
import pytest

from skyline.capture.child_process import ChildProcess
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("no_process_left_behind")]

ENDING = ChildProcess._end_process.__code__


def interrupt_the_end(_: int, frame: FrameType | None) -> None:
    """Ctrl+C, once the processes of the run are being ended."""
    while frame is not None:
        if frame.f_code is ENDING:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt
        frame = frame.f_back


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system interrupts no call after a time")
def test_a_second_ctrl_c_leaves_no_folder(script: Callable[..., Path]) -> None:
    before = set(psutil.Process().children())
    child = ScriptLauncher(CaptureRequest(script=script("import time\ntime.sleep(600)\n"))).launch()
    started = set(psutil.Process().children()) - before
    folder = child.scratch
    old = signal.signal(signal.SIGALRM, interrupt_the_end)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        with pytest.raises(KeyboardInterrupt):
            child.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert not folder.exists()
    # The run hears that nobody listens, and ends. Nobody else waits for it any more: without this it stays a zombie.
    assert started
    psutil.wait_procs(started, timeout=30)
