"""A training under ``skyline watch`` that removes and restores its hooks, block by block.

Run by ``watch_cost.py`` as ``skyline watch watch_cost_training.py NAME SECONDS FILE``. FILE gets the processor time per
iteration of each block. Blocks without hooks call PyTorch's own functions, as without Skyline.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader

_BLOCK_S = 0.1
_WARM_UP = 30
_HOLDERS = (
    (torch.autograd, "backward"),
    (dataloader._BaseDataLoaderIter, "__next__"),
    (functional, "cross_entropy"),
    (functional, "mse_loss"),
    (optimizers, "_global_optimizer_pre_hooks"),
    (optimizers, "_global_optimizer_post_hooks"),
)


class Switch:
    """Switches between the hooks and the functions of PyTorch that they replaced."""

    def __init__(self) -> None:
        self._hooked = [getattr(holder, name) for holder, name in _HOLDERS]
        self._own = [getattr(value, "__wrapped__", None) for value in self._hooked]
        if "_skyline_child.watching.hooks" not in sys.modules:
            raise SystemExit("run by watch_cost.py, under skyline watch")
        self._hooks = [dict(value) for value in self._hooked[-2:]]
        self._steps = self._hooked[-2:]

    def turn(self, on: bool) -> None:
        # Hooks that are paused are removed already, and stay removed.
        if not on:
            self._hooked = [getattr(holder, name) for holder, name in _HOLDERS]
        for (holder, name), hooked, own in zip(_HOLDERS, self._hooked, self._own, strict=True):
            if own is not None:
                setattr(holder, name, hooked if on else own)
        for registered, hooks in zip(self._steps, self._hooks, strict=True):
            registered.clear()
            registered.update(hooks if on else {})


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.mlp = (
            nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(self.norm(x)).chunk(3, dim=-1)
        x = x + self.out(functional.scaled_dot_product_attention(query, key, value, is_causal=True))
        return x + self.mlp(x)


def network(batch: int, width: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layers = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    return layers, torch.randn(32 * batch, 64), torch.randint(0, 10, (32 * batch,))


def convolutions(batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]

    layers = nn.Sequential(
        *block(3, 32), *block(32, 64), *block(64, 64), nn.Flatten(), nn.Linear(64 * 16, 10)
    )
    return layers, torch.randn(16 * batch, 3, 32, 32), torch.randint(0, 10, (16 * batch,))


def transformer(batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layers = nn.Sequential(nn.Embedding(64, 96), *(Attention(96) for _ in range(4)), nn.Linear(96, 64))
    return layers, torch.randint(0, 64, (16 * batch, 64)), torch.randint(0, 64, (16 * batch, 64))


MODELS: dict[str, tuple[int, Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]]] = {
    "small network": (32, lambda: network(32, 64)),
    "network": (128, lambda: network(128, 512)),
    "convolutions": (64, lambda: convolutions(64)),
    "transformer": (16, lambda: transformer(16)),
}


def iterations(name: str) -> Iterator[None]:
    torch.manual_seed(0)
    batch, make = MODELS[name]
    model, inputs, targets = make()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            yield


def main() -> None:
    name, seconds, path = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    switch, steps = Switch(), iterations(name)
    for _ in range(_WARM_UP):
        next(steps)
    began = time.process_time()
    for _ in range(_WARM_UP):
        next(steps)
    length = max(4, int(_BLOCK_S / ((time.process_time() - began) / _WARM_UP)))
    blocks: list[float] = []
    ends = time.process_time() + seconds
    while time.process_time() < ends or len(blocks) % 2 == 0:
        switch.turn(len(blocks) % 2 == 1)
        begins = time.process_time()
        for _ in range(length):
            next(steps)
        blocks.append((time.process_time() - begins) / length * 1e3)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"blocks_ms": blocks, "length": length, "process_s": time.process_time()}, file)


if __name__ == "__main__":
    main()
