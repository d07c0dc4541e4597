"""Runs a training script with fixed samples and records its losses, as one rank of several or as all of them at once.

``python joined_ranks.py COUNT RANKS FOLDER SCRIPT [ARGS...]`` writes, after COUNT backward passes, the loss of each
pass and the norm of the gradients at each update to ``FOLDER/losses.RANK.json``. RANKS is 0 for a script that is a rank
itself. For RANKS = N, the script, which has no code for ranks, computes what N ranks would compute together: its
loaders deliver batches of N times the size, in the order in which ``DistributedSampler`` distributes the samples.
Batches drawn by ``torch.randint`` come from the N generators, and batch normalization uses each N-th sample. Dropout is
always off. The randomness of a sample (its crop, its noise) is seeded by its number, because ranks draw these numbers
in another order than one process. It shares no code with Skyline.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torch.utils.data._utils.fetch import _MapDatasetFetcher


def fix_samples() -> None:
    """Make the randomness of a sample independent of where it is read."""
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
        setattr(functional, name, lambda given, *args, **kwargs: given)

    def fetch(self: Any, batch: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[batch])
        return self.collate_fn([_sample(self.dataset, index) for index in batch])

    _MapDatasetFetcher.fetch = fetch


def _sample(dataset: Dataset[Any], index: int) -> Any:
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(index)
        sample = dataset[index]
    random.setstate(states[0])
    np.random.set_state(states[1])
    return sample


def join(ranks: int) -> None:
    """Make one process compute what ``ranks`` ranks compute together."""
    made = inspect.signature(DataLoader.__init__)
    plain_init, plain_randint, plain_norm = DataLoader.__init__, torch.randint, functional.batch_norm
    generators: list[torch.Generator] = []

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = made.bind(self, *args, **kwargs)
        if given.arguments.get("batch_sampler") is None:
            given.arguments["batch_size"] = ranks * given.arguments.get("batch_size", 1)
        plain_init(*given.args, **given.kwargs)

    def dealt_out(self: Any) -> Iterator[int]:
        self.epochs = getattr(self, "epochs", 0) + 1
        generator = torch.Generator()
        generator.manual_seed(self.epochs)
        order = torch.randperm(len(self.data_source), generator=generator).tolist()
        yield from order + order[: -len(order) % ranks]

    def drawn(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("generator") is not None:
            return plain_randint(*args, **kwargs)
        if not generators:
            generators.extend(torch.Generator() for _ in range(ranks))
            for rank, each in enumerate(generators):
                each.manual_seed(torch.initial_seed() + rank)
        return torch.cat([plain_randint(*args, **kwargs, generator=each) for each in generators])

    def apart(given: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        bound = _NORM.bind(given, *args, **kwargs)
        if not bound.arguments.get("training"):
            return plain_norm(given, *args, **kwargs)
        parts: list[torch.Tensor] = []
        for rank in range(ranks):
            bound.arguments["input"] = given[rank::ranks]
            if rank:  # the first rank's running averages are those that stay
                bound.arguments["running_mean"] = bound.arguments["running_var"] = None
            parts.append(plain_norm(*bound.args, **bound.kwargs))
        return torch.stack(parts, dim=1).flatten(0, 1)

    DataLoader.__init__ = init  # type: ignore[method-assign]
    RandomSampler.__iter__ = dealt_out  # type: ignore[method-assign]
    torch.randint = drawn
    functional.batch_norm = apart


_NORM = inspect.signature(functional.batch_norm)


def record(count: int, folder: Path) -> None:
    """End the process after ``count`` backward passes, and write the record."""
    rank = int(os.environ.get("RANK", "0"))
    losses: list[float] = []
    norms: list[float] = []
    backward = torch.Tensor.backward

    def end() -> None:
        told = json.dumps({"losses": losses, "norms": norms})
        (folder / f"losses.{rank}.json").write_text(told, encoding="utf-8")

    def noted(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        losses.append(float(self.detach().double().mean()))
        backward(self, *args, **kwargs)

    def stepping(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        gradients = [
            each.grad.double().norm().item()
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None
        ]
        norms.append(float(np.linalg.norm(gradients)))
        if len(losses) >= count:
            end()
            if torch.distributed.is_initialized():
                # All gradients are exchanged, but a rank that ends first may cut off the last message of the others.
                with contextlib.suppress(RuntimeError):
                    torch.distributed.barrier()
            os._exit(0)

    torch.Tensor.backward = noted  # type: ignore[method-assign,assignment]
    register_optimizer_step_pre_hook(stepping)


def main() -> None:
    count, ranks, folder, script, *arguments = sys.argv[1:]
    if os.environ.get("DOUBLE"):
        torch.set_default_dtype(torch.float64)
        torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign,assignment]
    fix_samples()
    # A single rank draws the samples in the order of its sampler. A script that stands for a rank does the same.
    if int(ranks):
        join(int(ranks))
    record(int(count), Path(folder))
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
