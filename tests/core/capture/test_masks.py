"""The masks of indexing operators, which the profiler does not record as arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.trace.profile import Profile

MASKED = """
import torch

weight = torch.nn.Parameter(torch.ones(6, 4))
optimizer = torch.optim.SGD([weight], lr=1e-3)

while True:
    kept = weight[weight > 0]
    rows = weight[torch.tensor([2, 0])]
    loss = kept.sum() + rows.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.capture
def test_an_index_by_a_mask_shows_the_mask_and_its_format(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    trace = run(script(MASKED), warmup=1, steps=2).trace
    indexed = {
        (shape.inputs, shape.dtypes)
        for record in trace.records
        if record.name == "aten::index" and record.shape >= 0
        for shape in [trace.shapes[record.shape]]
    }
    assert indexed == {(((6, 4), (6, 4)), ("float32", "bool")), (((6, 4),), ("float32",))}
