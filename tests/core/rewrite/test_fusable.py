"""Scripts whose runs cannot be fused are refused, with the line and the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine

SCRIPT = "/project/train.py"
SCRIPTS = Path(__file__).parents[2] / "data" / "fuse_jobs"
PLAIN, CONVOLUTIONS = (
    (SCRIPTS / name).read_text(encoding="utf-8") for name in ("perceptron.py", "convolutions.py")
)


@pytest.mark.parametrize(
    ("old", "new", "reason", "line"),
    [
        ("nn.ReLU(inplace=True)", "nn.LSTM(8, 8)", "cannot batch LSTM", "model = "),
        ("nn.ReLU(inplace=True)", "nn.Embedding(8, 8, sparse=True)", "no sparse gradients", "model = "),
        ("nn.ReLU(inplace=True)", "nn.BatchNorm1d(8, momentum=None)", "cumulative statistics", "model = "),
        ("nn.ReLU(inplace=True)", "nn.Embedding(8, 8, max_norm=1.0)", "changes its weights", "model = "),
        ("AdamW(", "Adafactor(", "Adafactor computes", "optimizer = "),
        ("AdamW(model.parameters()", "AdamW(list(model.parameters())", "goes over the parameters", "optimizer = "),
        (
            "    optimizer.step",
            "    for one in model.parameters():\n        one.data.mul_(0.9)\n    optimizer.step",
            "goes over the parameters",
            "    for one in",
        ),
        (
            "    optimizer.step",
            "    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step",
            "more than clip",
            "    norm = ",
        ),
        (
            "    optimizer.step",
            "    nn.utils.clip_grad_norm_(model.parameters(), 1.0, 1)\n    optimizer.step",
            "more than clip",
            "    nn.utils",
        ),
        (
            "    optimizer.step",
            "    nn.utils.clip_grad_norm_(\n        model.parameters(),  # all\n1.0)\n    optimizer.step",
            "A comment is among the arguments",
            "    nn.utils",
        ),
        ("    history", "    if loss < 0.1:\n        break\n    history", "by the loss of one run", "    if loss"),
        (
            "    history",
            "    test_loss = 0\n    if test_loss > 1:\n        break\n    history",
            "of one run decides",
            "    if test_loss",
        ),
        ("    history", "    print(model[0].weight.grad)\n    history", "is a gradient", "    print"),
        ("for inputs", "model[0].weight.data.zero_()\nfor inputs", "part of the model of one run", "model[0]"),
        ("for inputs", "model.head = nn.Linear(2, 2)\nfor inputs", "is set in the model", "model.head"),
        ("for inputs", "model.reset()\nfor inputs", "may change the model", "model.reset"),
        ("for inputs", "torch.save(model, 'all.pt')\nfor inputs", "gets the model of one run", "torch.save"),
        ("for inputs", "model.load_state_dict(saved)\nfor inputs", "A saved state", "model.load"),
        ("for inputs", "model = torch.compile(model)\nfor inputs", "compiles its model", "model = torch.c"),
        ("for inputs", "scaler = torch.amp.GradScaler()\nfor inputs", "gradient scaler", "scaler = "),
        (
            "for inputs",
            "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nfor inputs",
            "by the loss of one",
            "plan = ",
        ),
        (
            "    loss = F.cross_entropy(model(inputs), targets)",
            "    with torch.autocast('cpu'):\n        loss = F.cross_entropy(model(inputs), targets)",
            "autocast",
            "    with",
        ),
        (
            "    loss = F.cross_entropy(model(inputs), targets)",
            "    loss = F.cross_entropy(model(inputs), targets) + model(inputs).mean()",
            "more than one call of the model",
            "    loss =",
        ),
        (
            "    loss = F.cross_entropy(model(inputs), targets)",
            "    inputs = model(inputs)\n    loss = F.cross_entropy(inputs, targets)",
            "read and bound again",
            "    inputs =",
        ),
        (
            "    loss = F.cross_entropy(model(inputs), targets)",
            "    out = model(inputs)\n    seen = out.sum().item()\n    loss = F.cross_entropy(out, targets)",
            "reads a value",
            "    seen",
        ),
        ("loss.backward()", "loss.backward(retain_graph=True)", "no plain backward", "    loss.backward"),
        ("    history", "    loss.mean().backward()\n    history", "more than one `backward()`", "    loss.backward"),
        (
            "model = nn.Sequential",
            "def build(*parts):\n    return nn.Sequential(*parts)\n\n\nmodel = build",
            "no class",
            "model = build",
        ),
        ("optimizer = ", "model.add_module('x', None)\noptimizer = ", "may change the model", "model.add"),
        ("optimizer = ", "nn.init.zeros_(model[0].weight)\noptimizer = ", "part of the model", "nn.init"),
        ("optimizer.step()", "optimizer.step(lambda: loss)", "more than step", "    optimizer.step"),
    ],
)  # fmt: skip
def test_what_is_not_safe_is_refused_with_its_line(workshop, old, new, reason, line):
    assert PLAIN.count(old) >= 1
    source = PLAIN.replace(old, new, 1)
    shop = workshop(source)
    told = shop.reason("fuse_jobs=3")
    assert reason in told
    number = next(at for at, text in enumerate(source.splitlines(), 1) if text.startswith(line))
    assert f"(line {number})" in told or f"lines {number}" in told, told
    assert "torch.func.vmap" in shop.plan("fuse_jobs=3").refused[0].snippet


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("return F.relu(", "self.last = x\n        return F.relu(", "The forward pass changes `self.last`"),
        ("return F.relu(", "x[:, 0] = 0\n        return F.relu(", "writes into `x`"),
        ("return F.relu(", "scale = x.mean().item()\n        return F.relu(", "reads values"),
        (
            "self.norm = ",
            "self.noise = torch.randn(3)\n        self.norm = ",
            "neither a parameter nor a buffer",
        ),
    ],
)
def test_models_that_keep_or_read_values_are_refused(workshop, old, new, reason):
    told = workshop(CONVOLUTIONS.replace(old, new, 1)).reason("fuse_jobs=3")
    assert reason in told
    assert "(line " in told


def test_layers_that_ran_are_refused_by_their_path(workshop):
    shop = workshop(PLAIN)
    gru = ModuleFact("Net.mix", "GRU", True, 4, True, {}, created_line=CodeLine(SCRIPT, 8))
    told = replace(shop, profile=replace(shop.profile, modules=(gru,))).reason("fuse_jobs=3")
    assert "cannot batch the GRU Net.mix (line 8)" in told


def test_runs_with_batches_of_their_own_are_refused(workshop):
    assert "each run is to read its own" in workshop(PLAIN).reason("fuse_jobs=3@own")
