"""No script is rewritten for several runs; the lines to write by hand are the script's own, and work."""

from __future__ import annotations

import pytest

SOURCE = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for step in range(5):
    inputs, targets = torch.randn(16, 4), torch.randint(2, (16,))
    outputs = model(inputs)
    loss = criterion(outputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
NO_FORWARD = SOURCE.replace("    outputs = model(inputs)\n", "").replace(
    "criterion(outputs", "criterion(model(inputs)"
)


def by_hand(workshop, source, value="3"):
    (refused,) = workshop(source).plan(f"fuse_jobs={value}").refused
    assert "only you know" in refused.reason
    return refused.snippet


def test_the_lines_are_the_scripts_own(workshop):
    written = by_hand(workshop, SOURCE)
    for line in (
        "models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(3)]",
        "optimizer = torch.optim.SGD(weights.values(), lr=0.1, momentum=0.9)",
        "def loss_of(weights, buffers, inputs, targets):",
        "    outputs = torch.func.functional_call(models[0], (weights, buffers), (inputs,))",
        "    loss = criterion(outputs, targets)",
        "    return loss",
    ):
        assert line in written.splitlines() or line in written
    assert "(0, 0, None, None)" in written


@pytest.mark.parametrize("source", [SOURCE, NO_FORWARD])
def test_they_train_each_run_as_it_trains_alone(workshop, source):
    """Both as the snippet says it, and the runs one after the other, from the same weights on the same batches."""
    torch = pytest.importorskip("torch")
    head, _, _ = source.partition("for step")
    setup, _, step = by_hand(workshop, source).partition("# in the loop")
    space: dict[str, object] = {}
    exec(head + setup, space)
    models = space["models"]
    batches = [(torch.randn(16, 4), torch.randint(2, (16,))) for _ in range(4)]
    alone = []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for inputs, targets in batches:
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            alone.append(loss.item())
    together = []
    for space["inputs"], space["targets"] in batches:
        space["optimizer"].zero_grad()
        exec(step.partition("\n")[2], space)
        space["optimizer"].step()
        together.append(space["each_loss"].tolist())
    assert [one for run in zip(*together, strict=True) for one in run] == pytest.approx(alone, rel=1e-5)


def test_what_cannot_be_read_gets_the_usual_lines(workshop):
    written = by_hand(workshop, "import framework\nframework.train()\n")
    assert "models = [Model() for _ in range(3)]" in written
    assert "no number" not in written
