"""Evaluation in a function that training calls as well, as a run and a trace report it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.shape_session import GpuTarget, trace_shapes

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("recorded facts")]

SCRIPT = """
import torch
from torch import nn

net, probe = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*net.parameters(), *probe.parameters()], lr=0.1)

def encode(x):
    return net(x)

def score(x):
    net.eval()
    probed = net(x)
    net.train()
    return probed

for step in range(400):
    x = torch.ones(4, 8)
    optimizer.zero_grad()
    encode(x).sum().backward()
    optimizer.step()
    net.eval()
    encode(x)
    net.train()
    score(x)
"""


@pytest.mark.parametrize("mode", ["measured", "predicted"])
def test_a_line_that_trains_as_well_is_marked(mode: str, tmp_path: Path, starter: Starter) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    asked = CaptureRequest(
        path, working_directory=tmp_path, warmup=2, steps=2, settle_s=0.0, batch_points=0, timeout_s=60.0
    )
    if mode == "measured":
        profile = capture(asked, progress=lambda _: None, starter=starter)
    else:
        gpu = GpuTarget("Imaginary 24", 24 * 2**30, (8, 6), 80)
        profile = trace_shapes(asked, gpu, progress=lambda _: None, starter=starter)
    lines = SCRIPT.splitlines()
    marked = {
        lines[call.line.line - 1].strip(): call.options.get("trained_here")
        for call in profile.calls
        if call.name == "eval forward" and call.line is not None
    }
    assert marked == {"return net(x)": "line", "probed = net(x)": None}
