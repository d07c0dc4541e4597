"""Time a training script by hand: only the clock is read after each optimizer step.

Run as ``python hand_timer.py STAMPS SCRIPT [ARGS...]``. Each step appends a line with the time of the monotonic clock
to STAMPS. For a script without an optimizer, each backward pass does so. It shares no code with Skyline, so that the
two can be compared.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def main() -> None:
    stamps, script, *arguments = sys.argv[1:]
    file = os.open(stamps, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made: list[torch.optim.Optimizer] = []
    construct, backward = torch.optim.Optimizer.__init__, torch.Tensor.backward

    def stamp() -> None:
        os.write(file, b"%.6f\n" % time.monotonic())

    def note(self: torch.optim.Optimizer, *args: object, **kwargs: object) -> None:
        made.append(self)
        construct(self, *args, **kwargs)  # type: ignore[arg-type]

    def backward_then_stamp(tensor: torch.Tensor, *args: object, **kwargs: object) -> None:
        backward(tensor, *args, **kwargs)  # type: ignore[arg-type]
        if not made:
            stamp()

    torch.optim.Optimizer.__init__ = note  # type: ignore[method-assign]
    torch.Tensor.backward = backward_then_stamp  # type: ignore[method-assign,assignment]
    register_optimizer_step_post_hook(lambda optimizer, args, kwargs: stamp())
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
