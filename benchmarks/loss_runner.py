"""Run a training script with fixed seeds until it has called ``backward`` a number of times, and print the losses.

``python loss_runner.py COUNT SCRIPT [ARGS...]`` prints a JSON list of the values on which ``backward`` was called, as
its last line. Of several ranks, started by ``torchrun``, only the first prints. ``python loss_runner.py --serve``
imports PyTorch once and then runs each request on its standard input in its own fork. A request can make a script
compute in double precision. It shares no code with Skyline.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import runpy
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch


def run(count: int, script: str, arguments: list[str], *, double: bool = False) -> None:
    """Run the script, and end the process after ``count`` calls of ``backward``."""
    if double:
        torch.set_default_dtype(torch.float64)
    losses: list[float] = []
    backward = torch.Tensor.backward

    def tell() -> None:
        if os.environ.get("RANK", "0") == "0":
            sys.stdout.write("\n" + json.dumps(losses) + "\n")
        sys.stdout.flush()

    def noted(self: torch.Tensor, *args: object, **kwargs: object) -> None:
        losses.append(float(self.detach().double().mean()))
        backward(self, *args, **kwargs)  # type: ignore[arg-type]
        # Not in the middle of a step: ending the process would break the communication with other ranks.
        if len(losses) >= count:
            tell()
            os._exit(0)

    torch.Tensor.backward = noted  # type: ignore[method-assign,assignment]
    # No dropout: compiled code and other layouts draw random numbers in another order, which is not an error.
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
        tell()


def serve() -> None:
    """Run each request, a line with a JSON object, and print a line when it is done."""
    with contextlib.suppress(ImportError):
        import torchvision  # noqa: F401
    for line in sys.stdin:
        asked = json.loads(line)
        process = os.fork()
        if not process:
            _forked(asked)
        deadline = time.monotonic() + asked["limit_s"]
        while not os.waitpid(process, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
        print("done", flush=True)


def _forked(asked: dict[str, object]) -> None:
    os.setsid()
    for target, path in ((1, asked["out"]), (2, asked["errors"])):
        os.dup2(os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), target)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    before, after = str(asked["before"]), str(asked["after"])
    if before:
        sys.path[:] = [each.replace(before, after) for each in sys.path]
        os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", "").replace(before, after)
    status = 1
    try:
        os.chdir(str(asked["folder"]))
        arguments = [str(one) for one in asked["arguments"]]  # type: ignore[attr-defined]
        run(int(str(asked["count"])), str(asked["script"]), arguments, double=bool(asked.get("double")))
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        run(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
