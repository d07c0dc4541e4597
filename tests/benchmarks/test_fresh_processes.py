"""The page faults and times of a process, read from outside."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of processes")
def test_page_faults_are_counted_for_each_iteration() -> None:
    from fresh_processes import Usage

    page = os.sysconf("SC_PAGE_SIZE")
    # Memory of the process's own heap may have been touched by an earlier test.
    with mmap.mmap(-1, 4000 * page) as pages:
        before = Usage.of(os.getpid())
        for place in range(0, len(pages), page):
            pages[place] = 1
        used = Usage.of(os.getpid()).per_iteration(before, 2)
    # The system may hand out several pages for one fault, but memory that was never touched costs none.
    assert used.faults > 0
    assert used.user_ms >= 0


def test_the_page_shows_the_faults_of_every_process() -> None:
    from fresh_processes import Usage, row
    from interleaved import TimedScript

    drawn = [Usage(300.0, 10.0, 2.0), Usage(100.0, 12.0, 1.0), Usage(200.0, 11.0, 3.0)]
    assert row(TimedScript(Path("there/train.py")), "by hand", drawn) == [
        "there/train.py",
        "by hand",
        "100, 200, 300",
        "11.0",
        "1.0 to 3.0",
        "13.0",
    ]
