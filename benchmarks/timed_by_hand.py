"""Runs a script under the hand timer in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HAND_TIMER = Path(__file__).with_name("hand_timer.py")
WARMUP = 4
"""Steps left out at the beginning: libraries choose their kernels and the allocator grows."""


def median_step_ms(script: Path, iterations: int, arguments: tuple[str, ...] = ()) -> float:
    """The median iteration of a fresh run of the script, in ms.

    Raises RuntimeError when the script fails, or ends before it has done half of the iterations.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "steps.json"
        command = [
            sys.executable,
            str(HAND_TIMER),
            str(result),
            str(iterations + WARMUP),
            str(script),
            *arguments,
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{script} failed under the hand timer:\n{done.stderr}")
        steps = json.loads(result.read_text(encoding="utf-8"))[WARMUP:]
    if len(steps) < iterations / 2:
        raise RuntimeError(f"{script} ended after {len(steps)} timed iterations of {iterations}")
    return statistics.median(steps)
