"""The curve over batch sizes of a GPU that is not here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.predict.gpu_profile import gpu_profile
from skyline.trace.profile import Profile
from skyline.trace.trial import batch_trials

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=8)
model = torch.nn.Linear(16, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(20):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.to(device)).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.capture
def test_the_profile_with_a_curve_goes_by_another_id(script: Callable[..., Path], starter: Starter) -> None:
    path = script(TRAINING)
    asked = CaptureRequest(
        path, working_directory=path.parent, gpu="L4", gpu_memory_bytes=10**9, timeout_s=60.0
    )
    shown: list[Profile] = []
    made = gpu_profile(asked, progress=lambda _: None, on_partial=shown.append, starter=starter)
    assert [one.trials for one in shown] == [()]
    assert {4, 16} <= batch_trials(made.trials).keys()
    assert made.id != shown[0].id
