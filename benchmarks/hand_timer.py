"""Time a training script by hand: the clock is read after each optimizer step, and nothing else is done.

Run as ``python hand_timer.py RESULT ITERATIONS SCRIPT [ARGS...]``; writes the milliseconds between steps to
RESULT as a JSON list and ends the script. It shares no code with Skyline, so that the two can be compared.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from itertools import pairwise
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook


def main() -> None:
    result, iterations, script, *arguments = sys.argv[1:]
    stamps: list[float] = []

    def finish() -> None:
        steps = [(after - before) * 1e3 for before, after in pairwise(stamps)]
        Path(result).write_text(json.dumps(steps), encoding="utf-8")

    def stamp(optimizer: object, args: object, kwargs: object) -> None:
        stamps.append(time.perf_counter())
        if len(stamps) > int(iterations):
            finish()
            sys.stdout.flush()
            os._exit(0)

    register_optimizer_step_post_hook(stamp)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
    finish()


if __name__ == "__main__":
    main()
