"""The time to write to memory that a forked process shares, measured by a program of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from skyline.capture.assemble import ScriptRun

_PROGRAM = Path(__file__).parent / "child" / "page_copies.py"
_TIMEOUT_S = 10.0


def with_page_copies(run: ScriptRun) -> ScriptRun:
    """The run with the cost of memory that is shared with loader workers, if the script has a loader."""
    environment = run.facts.environment
    if not run.facts.loaders or environment.device.kind != "cpu":
        return run
    return replace(run, copied_us_per_mb=copied_us_per_mb(environment.intraop_threads))


def copied_us_per_mb(threads: int) -> float:
    """The time in µs per MB to write to shared memory in a process of so many threads; 0 if it cannot be measured."""
    if not sys.platform.startswith("linux"):
        return 0.0
    command = [sys.executable, "-I", "-S", str(_PROGRAM), str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
        return max(0.0, float(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0.0
