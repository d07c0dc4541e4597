"""Reports of memory that a run keeps and of graphs that torch.compile breaks, and the findings from them."""

from __future__ import annotations

import sys

import pytest

from skyline.findings.registry import find
from skyline.whatif.baseline import baseline

pytestmark = pytest.mark.capture


LEAKING = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 1)

    def forward(self, x):
        hidden = self.first(x)
        if hidden.sum() > 1e9:
            hidden = hidden * 2
        return self.second(hidden)

net = Net()
model = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
kept = []
for step in range(100_000):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept.append(torch.ones(500, 500))
"""


def test_memory_that_is_kept_and_a_branch_that_breaks_the_graph(script, run):
    profile = run(script(LEAKING))
    breaks = [call for call in profile.calls if call.name == "graph break"]
    assert [call.line.line for call in breaks] == [12]
    assert breaks[0].options == {"reason": "a branch depends on the numbers in a tensor"}
    found = {finding.code: finding for finding in find(baseline(profile))}
    assert found["SKY204"].line == 12
    if sys.platform.startswith("linux") and profile.times.memory_bytes:
        assert len(profile.times.memory_bytes) == len(profile.times.steps_ms)
        assert "1.0 MB" in found["SKY403"].title
        assert found["SKY403"].line == 25
