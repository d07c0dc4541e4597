"""The model is pruned once it is complete, before the optimizer takes its parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace

REST = (
    "opt = torch.optim.SGD(model.parameters(), lr=1)\n"
    "for x, y in loader:\n    f(model(x), y).backward()\n    opt.step()\n"
)
BEFORE = f"import torch\nmodel = Net()\n{REST}"


def pruner(name: str = "model", ratio: str = "0.3", indent: str = "") -> str:
    lines = (
        "torch_pruning.pruner.BasePruner(",
        f"    {name},",
        f"    (torch.zeros(1, 3, 32, 32, device=next({name}.parameters()).device),),",
        "    torch_pruning.importance.MagnitudeImportance(),",
        f"    pruning_ratio={ratio},",
        f"    ignored_layers=[{name}.get_submodule('body.head')],",
        ").step()",
        f"{name}.train()",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


IMPORTS = "import torch\nimport torch_pruning\n"
OBJECT = "class T:\n    def __init__(self):\n        self.model = Net()  # small\n"
STEP = "        self.opt = torch.optim.SGD(self.model.parameters(), lr=1)\n"
METHOD = (
    "    def fit(self):\n        for x, y in loader:\n"
    "            f(self.model(x), y).backward()\n            self.opt.step()\nT().fit()\n"
)
REWRITTEN = {
    "at the top": (BEFORE, f"{IMPORTS}model = Net()\n{pruner()}{REST}"),
    "moved": (
        BEFORE.replace("Net()\n", "Net()\nmodel.to(dev)\n"),
        f"{IMPORTS}model = Net()\nmodel.to(dev)\n{pruner()}{REST}",
    ),
    "in an object": (
        f"import torch\n{OBJECT}{STEP}{METHOD}",
        f"{IMPORTS}{OBJECT}{pruner('self.model', indent='        ')}{STEP}{METHOD}",
    ),
}


@pytest.fixture
def pruning(workshop):
    """A run of a model of two layers, on pictures."""
    modules = (
        ModuleFact("Net", "Net", False, 0, False, {}),
        ModuleFact(
            "Net.one",
            "Conv2d",
            True,
            432,
            True,
            {"in_channels": 3, "out_channels": 16, "kernel_size": (3, 3)},
        ),
        ModuleFact("Net.body.head", "Linear", True, 160, True, {"in_features": 16, "out_features": 10}),
    )
    shapes = (OperatorShape("aten::conv2d", ((8, 3, 32, 32), (16, 3, 3, 3)), ("float32",) * 2),)
    rows = tuple(
        Record("aten::op", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, at, 1.0, module=module, shape=0)
        for at, module in ((0.0, 1), (1.0, 2))
    )
    seen = Trace((IterationMark(0, 0.0, 9.0),), (), tuple(one.path for one in modules), rows, shapes=shapes)

    def make(source: str, **changes):
        line = next((n for n, text in enumerate(source.split("\n"), 1) if "SGD" in text), None)
        shop = workshop(source, optimizers=(("SGD", line),))
        return replace(shop, profile=replace(shop.profile, **{"modules": modules, "trace": seen, **changes}))

    return make


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten(pruning, name):
    before, after = REWRITTEN[name]
    edited = pruning(before).edited("prune=0.3")
    assert edited == after
    shop = pruning(edited)
    assert shop.present("prune") == "0.3"
    assert shop.edited("prune=0.3") == edited


def test_multiples_of_eight(pruning):
    edited = pruning(BEFORE).edited("prune=0.25:8")
    assert "    pruning_ratio=0.25, round_to=8,\n" in edited
    assert pruning(edited).present("prune") == "0.25:8"


def test_the_person_is_told_what_it_needs_and_what_it_may_cost(pruning):
    said = " ".join(pruning(BEFORE).plan("prune=0.3").notes)
    assert "pip install torch-pruning" in said
    assert "calibration" in said


REFUSED = {
    "another ratio": (f"{IMPORTS}model = Net()\n{pruner(ratio='0.5')}{REST}", {}, "prunes its model already"),
    "several inputs": (BEFORE.replace("model(x)", "model(x, z)"), {}, "more than one argument"),
    "compiled": (BEFORE.replace("Net()\n", "torch.compile(Net())\n"), {}, "compiles its model"),
    "loaded later": (BEFORE + "model.load_state_dict(w)\n", {}, "Weights are loaded"),
    "sizes": (BEFORE, {"modules": ()}, "sizes of the model are not known"),
    "no model": ("import torch\n", {}, ""),
    "no ratio": (BEFORE, {}, "not possible"),
    "a written size": (
        BEFORE.replace(
            "model = Net()",
            "class Net:\n    def forward(self, x):\n        return x.view(-1, 4 * 4)\nmodel = Net()",
        ),
        {},
        "`x.view(-1, 4 * 4)` writes down a size",
    ),
}


def test_other_written_sizes_stay(pruning):
    for_images = "def flat(x):\n    return x.view(-1, 3 * 32 * 32).reshape(n, -1)\n"
    assert "BasePruner" in pruning(for_images + BEFORE).edited("prune=0.3")


def test_a_model_that_rearranges_with_einops_is_refused(pruning):
    shop = pruning(BEFORE)
    moved = ModuleFact("Net.moved", "Rearrange", False, 0, False, {})
    shop = replace(shop, profile=replace(shop.profile, modules=(*shop.profile.modules, moved)))
    assert "einops" in shop.reason("prune=0.3")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(pruning, name):
    source, changes, reason = REFUSED[name]
    said = pruning(source, **changes).reason("prune=2" if name == "no ratio" else "prune=0.3")
    assert reason in said


def test_a_pruner_that_is_kept_stays(pruning):
    kept = f"{IMPORTS}model = Net()\np = {pruner().replace(').step()', ')', 1)}p.step()\n{REST}"
    planned = pruning(kept).without("prune")
    assert planned.edits == ()
    assert "assigned to a name" in planned.refused[0].reason
