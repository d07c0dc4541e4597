"""A classifier that learns the labels of a random network, with SGD and momentum."""

from __future__ import annotations

from functools import partial

import torch
from run_to_target import Task, main
from torch import Tensor, nn

_CHANCE = torch.Generator().manual_seed(5)
_FIRST = torch.randn(32, 64, generator=_CHANCE) / 32**0.5
_SECOND = torch.randn(64, 10, generator=_CHANCE) / 2


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Random points with the teacher's labels, one in ten of them at random."""
    inputs = torch.randn(count, 32)
    labels = (torch.tanh(2 * inputs @ _FIRST) @ _SECOND).argmax(1)
    return inputs, torch.where(torch.rand(count) < 0.1, torch.randint(0, 10, (count,)), labels)


TASK = Task(
    model=lambda: nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10)),
    batch=batch,
    loss=nn.functional.cross_entropy,
    optimizer=partial(torch.optim.SGD, momentum=0.9),
    batch_size=128,
    lr=0.05,
    lr_power=1.0,
    target=1.28,
)

if __name__ == "__main__":
    main(TASK)
