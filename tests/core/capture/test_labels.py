"""Labels are counted by class while a script warms up, and only where there are many classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.trace.profile import Profile

Run = Callable[..., Profile]

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, {classes}))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    targets = torch.arange(64) * {classes} // 64
    targets[0] = -100
    loss = nn.functional.cross_entropy(model(torch.randn(64, 8)), targets)
    optimizer.zero_grad()
    (2 * loss).backward()
    optimizer.step()
"""


@pytest.mark.capture
def test_labels_below_each_class(script: Callable[..., Path], run: Run) -> None:
    found = run(script(SCRIPT.format(classes=4096))).labels
    assert found is not None
    assert found.counted % 63 == 0
    assert found.counted >= 2 * 63
    shares = {edge: below / found.counted for edge, below in zip(found.classes, found.below, strict=True)}
    # 63 labels at the multiples of 64 from 64 on: none below 64, and 31 below 2048.
    assert shares[64] == 0
    assert shares[2048] == pytest.approx(31 / 63)
    assert shares[4096] == 1


@pytest.mark.capture
def test_few_classes_are_not_counted(script: Callable[..., Path], run: Run) -> None:
    assert run(script(SCRIPT.format(classes=640))).labels is None
