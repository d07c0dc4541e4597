"""A classifier that learns the labels of a random network, with SGD and momentum."""

from __future__ import annotations

import argparse

import torch
from torch import nn

LEARNING_RATE = 0.05
BATCH_SIZE = 128
TARGET = 0.75
LARGER_BATCH = 1.0
"""Power of the batch size with which the learning rate grows."""


def train(batch_size: int, lr: float, seed: int, target: float | None, most_samples: float) -> float | None:
    """Samples until the loss on fixed data is at the target; None if it never is."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
    seen = torch.randn(4096, 32)
    with torch.no_grad():
        known = (4 * teacher(seen)).argmax(1)
    torch.manual_seed(1 + seed)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    every = max(1, 4096 // batch_size)
    before, steps = None, 0
    while steps * batch_size < most_samples:
        inputs = torch.randn(batch_size, 32)
        with torch.no_grad():
            labels = (4 * teacher(inputs)).argmax(1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        steps += 1
        if target is not None and steps % every == 0:
            with torch.no_grad():
                now = float(nn.functional.cross_entropy(model(seen), known))
            if now <= target:
                share = 1.0 if before is None else (before - target) / (before - now)
                return (steps - every * (1 - share)) * batch_size
            before = now
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=LEARNING_RATE)
    parser.add_argument("--samples", type=float, default=1e9)
    arguments = parser.parse_args()
    train(BATCH_SIZE, arguments.lr, 0, None, arguments.samples)
