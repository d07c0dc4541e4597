"""The training loop of the scripts in this folder: fresh batches, until the loss on fixed data is at a target."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Task:
    """A model to train. ``batch`` draws the inputs and targets of so many samples, ``loss`` is the mean over them.

    ``lr`` is a learning rate for ``batch_size`` samples; for others it grows with the power ``lr_power`` of the batch.
    """

    model: Callable[[], nn.Module]
    batch: Callable[[int], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[..., torch.optim.Optimizer]
    batch_size: int
    lr: float
    lr_power: float
    target: float


def train(
    task: Task, batch_size: int, lr: float, seed: int, target: float | None, most_samples: float = 1e12
) -> float | None:
    """Samples until the loss on fixed data is at the target; None if it is not within ``most_samples``."""
    torch.manual_seed(99)
    seen, known = task.batch(2048)
    torch.manual_seed(1 + seed)
    model = task.model()
    optimizer = task.optimizer(model.parameters(), lr=lr)
    every = max(1, 2048 // batch_size)
    before, steps = float("nan"), 0
    while steps * batch_size < most_samples:
        inputs, targets = task.batch(batch_size)
        optimizer.zero_grad()
        task.loss(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
        if target is not None and steps % every == 0:
            with torch.no_grad():
                now = float(task.loss(model(seen), known))
            if now <= target:
                share = (before - target) / (before - now) if before > target else 1.0
                return (steps - every * (1 - share)) * batch_size
            before = now
    return None


def main(task: Task) -> None:
    """Train on and on, as a plain script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=task.batch_size)
    parser.add_argument("--lr", type=float, default=task.lr)
    parser.add_argument("--samples", type=float, default=1e12)
    arguments = parser.parse_args()
    train(task, arguments.batch_size, arguments.lr, 0, None, arguments.samples)
