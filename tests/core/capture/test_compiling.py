"""torch.compile of several versions of PyTorch, under observation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook

from skyline.capture.child import compiling
from skyline.capture.child.recording.memory import live_tensors


@pytest.fixture
def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(2))


def _taking_hooks_out(optimizer: type[torch.optim.Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch.compile like that of PyTorch 2.1, which unwraps the steps of optimizers and marks them."""

    def compiles(model: object) -> object:
        bare = vars(optimizer)["step"].__wrapped__
        bare.hooked = True
        monkeypatch.setattr(optimizer, "step", bare)
        return model

    monkeypatch.setattr(torch, "compile", compiles)


def test_steps_are_seen_where_compile_takes_the_hooks_out(
    parameter: torch.nn.Parameter, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    _taking_hooks_out(torch.optim.SGD, monkeypatch)
    compiling.install(lambda result, options: None)
    stepped: list[object] = []
    handle = register_optimizer_step_post_hook(lambda one, args, kwargs: stepped.append(one))
    try:
        torch.compile(torch.nn.Linear(2, 2))
        optimizer.step()
        another = torch.optim.SGD([parameter], lr=0.1)
        another.step()
    finally:
        handle.remove()
    assert stepped == [optimizer, another]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS])
def test_hooks_that_are_there_are_called_once(
    kind: Callable[..., torch.optim.Optimizer], parameter: torch.nn.Parameter, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = kind([parameter], lr=0.1)
    monkeypatch.setattr(torch, "compile", torch.compile)
    compiling.install(lambda result, options: None)
    stepped: list[object] = []
    handle = register_optimizer_step_post_hook(lambda one, args, kwargs: stepped.append(one))
    try:
        torch.compile(torch.nn.Linear(2, 2))
        optimizer.step(lambda: float(parameter.sum()))
    finally:
        handle.remove()
    assert stepped == [optimizer]


@pytest.mark.parametrize("name", ["trace_rules", "skipfiles"])
def test_code_of_the_package_is_never_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("trace_rules", "skipfiles"):
        monkeypatch.setitem(sys.modules, f"torch._dynamo.{other}", SimpleNamespace())
    added: list[str] = []
    rules = SimpleNamespace(SKIP_DIRS=[], add=added.append)
    monkeypatch.setitem(sys.modules, f"torch._dynamo.{name}", rules)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    compiling.install(lambda result, options: None)
    torch.compile(torch.nn.Linear(2, 2))
    assert added == ["skyline.capture.child"]


def test_tensors_of_the_compiler_own_no_bytes_and_cause_no_warning() -> None:
    with FakeTensorMode():
        held = torch.empty(1 << 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = live_tensors("cpu", [])
    assert counted["other_bytes"] < held.numel() * held.element_size()
