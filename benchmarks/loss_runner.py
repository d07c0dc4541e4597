"""Run a training script with fixed seeds until it has called ``backward`` so often, and print the losses.

``python loss_runner.py COUNT SCRIPT [ARGS...]`` prints a JSON list of the values that ``backward`` was called on, as
its last line. It shares no code with Skyline.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
from pathlib import Path

import numpy as np
import torch


def main() -> None:
    count, script, *arguments = sys.argv[1:]
    losses: list[float] = []
    backward = torch.Tensor.backward

    def note(tensor: torch.Tensor) -> None:
        losses.append(float(tensor.detach().float().mean()))

    def end_when_done() -> None:
        if len(losses) >= int(count):
            sys.stdout.write("\n" + json.dumps(losses) + "\n")
            sys.stdout.flush()
            os._exit(0)

    def noted(self: torch.Tensor, *args: object, **kwargs: object) -> None:
        note(self)
        backward(self, *args, **kwargs)  # type: ignore[arg-type]
        # Not in the middle of a step: the end of the process would cut off what others share with it.
        end_when_done()

    torch.Tensor.backward = noted  # type: ignore[method-assign,assignment]
    # Compiled code and other layouts draw the numbers in another order, which is no fault of theirs.
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        setattr(torch.nn.functional, name, lambda given, *args, **kwargs: given)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.stdout.write("\n" + json.dumps(losses) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
