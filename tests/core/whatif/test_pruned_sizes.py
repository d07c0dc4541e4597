"""The sizes of real networks once pruned are those that torch-pruning leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from skyline.capture.child import module_facts
from skyline.trace.facts import ModuleFact
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.catalogue.models.pruned_sizes import Cut, pruned, why_not

torch = pytest.importorskip("torch")
nn = torch.nn
# One worker imports torch-pruning, and not each of them.
pytestmark = pytest.mark.xdist_group("torch-pruning")


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int = 1) -> None:
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.two = nn.Conv2d(outputs, outputs, 3, padding=1, groups=groups)
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return torch.relu(self.two(torch.relu(self.norm(self.one(x)))) + self.shortcut(x))


class Pooled(nn.Module):
    def __init__(self, *body: nn.Module, features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.head = nn.Linear(features, 10)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def depthwise() -> nn.Module:
    return Pooled(
        nn.Conv2d(3, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, groups=24), nn.Conv2d(24, 40, 1),
        features=40,
    )  # fmt: skip


def flattened() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Flatten(),
        nn.Linear(5000, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "residual": lambda: Pooled(Residual(3, 16), Residual(16, 16), Residual(16, 36), features=36),
    "grouped": lambda: Pooled(Residual(3, 16), Residual(16, 64, groups=8), features=64),
    "group norm": lambda: Pooled(nn.Conv2d(3, 32, 3), nn.GroupNorm(4, 32), nn.Conv2d(32, 48, 3), features=48),
    "depthwise": depthwise,
    "flattened": flattened,
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3072, 90), nn.Linear(90, 50), nn.Linear(50, 3)),
}  # fmt: skip


def profiled(profile, model: nn.Module):
    """A profile of the forward pass of a model: its modules, and its calls in order."""
    root = type(model).__name__
    names = {module: f"{root}.{name}" if name else root for name, module in model.named_modules()}
    paths = tuple(names.values())
    records: list[Record] = []
    shapes: list[OperatorShape] = []

    def seen(module, inputs, output):
        if list(module.children()):
            return
        shapes.append(OperatorShape("aten::op", (tuple(inputs[0].shape),), ("float32",)))
        at = float(len(records))
        records.append(
            Record(
                "aten::op", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, at, 1.0,
                module=paths.index(names[module]), shape=len(shapes) - 1,
            )
        )  # fmt: skip

    hooks = [module.register_forward_hook(seen) for module in names]
    model(torch.zeros(2, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    facts = tuple(
        ModuleFact(
            path, type(module).__name__, module_facts.is_library(module),
            sum(one.numel() for one in module.parameters(recurse=False)), True,
            {name: tuple(one) if isinstance(one, list) else one for name, one in module_facts.options(module).items()},
        )
        for module, path in names.items()
    )  # fmt: skip
    made = Trace((IterationMark(0, 0.0, 99.0),), (), paths, tuple(records), shapes=tuple(shapes))
    return replace(profile, trace=made, modules=facts)


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.75])
@pytest.mark.parametrize("name", NETWORKS)
def test_as_torch_pruning(profile, name: str, ratio: float) -> None:
    torch.manual_seed(0)
    model = NETWORKS[name]()
    seen = profiled(profile, model)
    assert why_not(seen) == ""
    told = pruned(seen, Cut(ratio))
    check(told, seen, model, ratio)


@pytest.mark.parametrize("multiple", [4, 8, 16])
def test_multiples_as_torch_pruning(profile, multiple: int) -> None:
    model = NETWORKS["residual"]()
    seen = profiled(profile, model)
    check(pruned(seen, Cut(0.3, multiple)), seen, model, 0.3, multiple)


def check(told, seen, model: nn.Module, ratio: float, multiple: int | None = None) -> None:
    pruning = pytest.importorskip("torch_pruning")
    root = type(model).__name__
    given = torch.zeros(1, *seen.trace.shapes[0].inputs[0][1:])
    pruning.pruner.BasePruner(
        model, (given,), pruning.importance.MagnitudeImportance(), pruning_ratio=ratio, round_to=multiple,
        ignored_layers=[model.get_submodule(told.last.removeprefix(f"{root}."))],
    ).step()  # fmt: skip
    found = {
        f"{root}.{name}": (module.in_features, module.out_features)
        if isinstance(module, nn.Linear)
        else (module.in_channels, module.out_channels)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
    assert {path: (one.kept_inputs, one.kept_outputs) for path, one in told.layers.items()} == found
    left = sum(one.numel() for one in model.parameters())
    now = sum(one.parameter_count for one in seen.modules)
    assert told.parameter_share(seen.modules) == pytest.approx(left / now)
    model(given)
