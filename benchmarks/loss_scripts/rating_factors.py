"""Factors of users and items, learned from noisy ratings, with Adam."""

from __future__ import annotations

import torch
from run_to_target import Task, main
from torch import Tensor, nn

_USERS, _ITEMS, _RANK = 200, 100, 4
_CHANCE = torch.Generator().manual_seed(8)
_OF_USERS = torch.randn(_USERS, _RANK, generator=_CHANCE)
_OF_ITEMS = torch.randn(_ITEMS, _RANK, generator=_CHANCE)


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Pairs of a user and an item, and their ratings."""
    users, items = torch.randint(0, _USERS, (count,)), torch.randint(0, _ITEMS, (count,))
    ratings = (_OF_USERS[users] * _OF_ITEMS[items]).sum(1) + torch.randn(count)
    return torch.stack([users, items], 1), ratings


class Model(nn.Module):
    """The inner product of two embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(_USERS, 8), nn.Embedding(_ITEMS, 8)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, pairs: Tensor) -> Tensor:
        """Predicted ratings."""
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(1)


TASK = Task(
    model=Model,
    batch=batch,
    loss=nn.functional.mse_loss,
    optimizer=torch.optim.Adam,
    batch_size=256,
    lr=1e-2,
    lr_power=0.5,
    target=1.2,
)

if __name__ == "__main__":
    main(TASK)
