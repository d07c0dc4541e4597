"""Whose call ends an iteration of a script that does not train."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

ENTRY = Path(__file__).resolve().parents[3] / "skyline" / "capture" / "child" / "__main__.py"


@pytest.fixture(scope="module")
def child() -> ModuleType:
    runpy.run_path(str(ENTRY))["load_package"]()
    return importlib.import_module("_skyline_child.model_calls")


class Watched:
    """The calls that ended an iteration, by the class of the model."""

    def __init__(self, child: ModuleType) -> None:
        self.calls = child.ModelCalls(self._ended)
        self.ended: list[str] = []

    def _ended(self) -> None:
        self.ended.append(type(self.calls.anchor.module).__name__)


@pytest.fixture
def watched(child: ModuleType) -> Iterator[Watched]:
    found = Watched(child)
    found.calls.install()
    yield found
    found.calls._remove()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(self.inner(x))


class Decoder(nn.Linear):
    pass


X = torch.ones(2, 4)


def test_a_call_counts_once_whatever_it_calls(watched: Watched) -> None:
    model, loss = Net(), nn.MSELoss()
    for _ in range(3):
        loss(model(X), X)
    assert watched.ended == ["Net"] * 3
    assert watched.calls.iterations == 3
    fact = watched.calls.fact()
    assert fact["name"] == "Net"


def test_of_several_models_the_one_that_is_called_least_often(watched: Watched) -> None:
    encoder, decoder = Net(), Decoder(4, 4)
    for _ in range(5):
        hidden = encoder(X)
        for _ in range(4):
            hidden = decoder(hidden)
    # The first call of the decoder still counted.
    assert watched.ended.count("Net") == 5
    watched.calls.fix()
    watched.ended.clear()
    for _ in range(2):
        hidden = encoder(X)
        decoder(hidden)
    assert watched.ended == ["Net", "Net"]


def test_a_model_that_is_called_once_at_the_start_does_not_hold_up_the_others(
    watched: Watched, child: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_MOST_BETWEEN", 8)
    Decoder(4, 4)(X)
    model = Net()
    for _ in range(20):
        model(X)
    assert watched.ended[-10:] == ["Net"] * 10


def test_a_call_that_fails_leaves_the_next_ones_in_order(watched: Watched) -> None:
    model = Net()
    model(X)
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    before = len(watched.ended)
    model(X)
    assert len(watched.ended) == before + 1


def test_the_wrapper_of_a_compiled_model_is_watched_alone(watched: Watched) -> None:
    wrapper = Net()
    watched.calls.compiled(wrapper)
    wrapper(X)
    wrapper(X)
    assert watched.ended == ["Net", "Net"]
    assert not nn.modules.module._global_forward_hooks
    watched.calls.fix()
    wrapper(X)
    assert len(watched.ended) == 3
