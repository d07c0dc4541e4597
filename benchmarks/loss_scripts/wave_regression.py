"""A network that learns a sum of waves from noisy values, with Adam."""

from __future__ import annotations

import torch
from run_to_target import Task, main
from torch import Tensor, nn

_WAVES = 1.5 * torch.randn(4, 8, generator=torch.Generator().manual_seed(9))


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Random points and the noisy values there."""
    points = torch.rand(count, 4) * 2 - 1
    return points, torch.sin(points @ _WAVES).sum(1) + 0.5 * torch.randn(count)


TASK = Task(
    model=lambda: nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0)
    ),
    batch=batch,
    loss=nn.functional.mse_loss,
    optimizer=torch.optim.Adam,
    batch_size=64,
    lr=4e-3,
    lr_power=0.5,
    target=0.55,
)

if __name__ == "__main__":
    main(TASK)
