"""A small convolutional network that tells noisy 12 x 12 images of eight patterns apart, with SGD and momentum."""

from __future__ import annotations

from functools import partial

import torch
from run_to_target import Task, main
from torch import Tensor, nn

_PATTERNS = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(6))


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Each pattern at a random place, under noise."""
    labels = torch.randint(0, 8, (count,))
    images = torch.randn(count, 1, 12, 12)
    for shift in range(4):
        at = torch.arange(count)[torch.randint(0, 4, (count,)) == shift]
        row, column = 2 * (shift // 2), 4 * (shift % 2)
        images[at, :, row : row + 6, column : column + 6] += 0.9 * _PATTERNS[labels[at]]
    return images, labels


TASK = Task(
    model=lambda: nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 8),
    ),
    batch=batch,
    loss=nn.functional.cross_entropy,
    optimizer=partial(torch.optim.SGD, momentum=0.9),
    batch_size=64,
    lr=0.1,
    lr_power=1.0,
    target=0.8,
)

if __name__ == "__main__":
    main(TASK)
