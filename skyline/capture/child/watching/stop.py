"""End of a run that the person allowed the watcher to stop: a checkpoint, then what Ctrl+C does."""

from __future__ import annotations

import gc
import os
import signal
import sys

import torch

from .parameters import root_modules

_save = torch.save


def stop(command, iteration, stream):
    """Save modules, optimizers and random state, and raise the signal of Ctrl+C in this process.

    Shells start programs in the background with that signal ignored: there its exception is raised in its place.
    """
    path = command.get("checkpoint")
    if path is not None:
        alive = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.optim.Optimizer)]
        trained = {
            id(one) for optimizer in alive for group in optimizer.param_groups for one in group["params"]
        }
        roots = [root for root in root_modules() if any(id(one) in trained for one in root.parameters())]
        content = {
            "iteration": iteration,
            "models": [root.state_dict() for root in roots],
            "optimizers": [optimizer.state_dict() for optimizer in alive],
            "random_state": torch.get_rng_state(),
        }
        try:
            _save(content, path + ".part")
            os.replace(path + ".part", path)
            stream.send(kind="checkpoint", iteration=iteration, path=path)
        except Exception as error:
            stream.send(
                kind="checkpoint", iteration=iteration, path="", problem=f"{type(error).__name__}: {error}"
            )
    sys.stdout.flush()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)
