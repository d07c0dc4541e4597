"""Ends a run that the user allowed the watcher to stop: with a checkpoint, then like Ctrl+C."""

from __future__ import annotations

import gc
import os
import signal
import sys

import torch

from ..observed_keras import is_of_keras, parameters_of, saved_state
from .parameters import OF_KERAS, root_modules

_save = torch.save


def stop(command, iteration, stream):
    """Save modules, optimizers and random state, and raise the signal of Ctrl+C (SIGINT) in this process.

    Shells start background programs with SIGINT ignored: then KeyboardInterrupt is raised instead.
    """
    path = command.get("checkpoint")
    if path is not None:
        alive = _optimizers()
        trained = {id(one) for optimizer in alive for one in parameters_of(optimizer)}
        content = {
            "iteration": iteration,
            "models": [root.state_dict() for root in _models(trained)],
            "optimizers": [saved_state(optimizer) for optimizer in alive],
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


def _optimizers():
    """All existing optimizers of PyTorch and Keras."""
    known = {}
    found = []
    for thing in gc.get_objects():
        kind = type(thing)
        is_one = known.get(kind)
        if is_one is None:
            is_one = known[kind] = issubclass(kind, torch.optim.Optimizer) or is_of_keras(thing)
        if is_one:
            found.append(thing)
    return found


def _models(trained):
    """Root modules with trained parameters; for Keras without layers that belong to a model."""
    known = set()
    found = []
    roots = [(root, {id(one) for one in root.parameters()}) for root in root_modules()]
    for root, own in sorted(roots, key=lambda pair: -len(pair[1])):
        if own & trained and not (OF_KERAS in root._modules and own <= known):
            known |= own
            found.append(root)
    return found
