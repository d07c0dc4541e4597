"""Optimizers of Keras on PyTorch: each step is an optimizer step, and ends an iteration."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from skyline.capture.child.observed_keras import (
    KerasOptimizers,
    is_of_keras,
    name_of,
    parameters_of,
    saved_state,
    state_of,
)
from skyline.capture.child.part_clock import PartClock
from skyline.capture.child.recording.memory import live_tensors
from skyline.trace.profile import Profile
from skyline.trace.record import Phase

NEEDS_KERAS = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="keras is not installed")
BASE = "keras.src.optimizers.base_optimizer"
SCALING = "keras.src.optimizers.loss_scale_optimizer"

FIT = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import numpy
import keras

x = numpy.random.rand(4096, 64).astype("float32")
y = numpy.random.rand(4096, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(8)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32, epochs=1000, verbose=0)
"""
ACCUMULATED = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import numpy
import keras

x = numpy.random.rand(4096, 64).astype("float32")
y = numpy.random.rand(4096, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(8)])
optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=4)
model.compile(optimizer=optimizer, loss="mse")
model.fit(x, y, batch_size=32, epochs=1000, verbose=0)
"""


def shapes(tensors: Any) -> list[tuple[int, ...]]:
    return [tuple(one.shape) for one in tensors]


class Variable:
    """A variable of Keras, with the tensor that it holds."""

    def __init__(self, *shape: int, path: str = "") -> None:
        self._value = torch.nn.Parameter(torch.zeros(shape))
        self.path = path


def base_class() -> type[Any]:
    """The parts of Keras's base class that are relied on."""

    class BaseOptimizer:
        def __init__(self, gradient_accumulation_steps: int | None = None) -> None:
            self.gradient_accumulation_steps = gradient_accumulation_steps
            self._iterations = Variable()
            self._trainable_variables = [Variable(3, 2), Variable(2)]
            self.variables = [self._iterations, Variable(3, 2), Variable(2)]
            self.applied = 0

        def apply(self, grads: list[Any], trainable_variables: object = None) -> None:
            if len(grads) == 0:
                return
            if "overflow" in grads:
                raise ValueError("overflow")
            self.applied += 1
            with torch.no_grad():
                self._iterations._value.add_(1)

    BaseOptimizer.__module__ = BASE
    return BaseOptimizer


class Seen:
    """A ``KerasOptimizers`` with what it told."""

    def __init__(self) -> None:
        self.clock = PartClock()
        self.told: list[tuple[object, ...]] = []
        self.keras = KerasOptimizers(
            self.clock.timed,
            lambda optimizer, line: self.told.append(("created", optimizer)),
            lambda optimizer: self.told.append(("before", optimizer)),
            lambda optimizer, frame, updated: self.told.append(("after", optimizer, updated)),
            lambda optimizer, frame: self.told.append(("skipped", optimizer)),
        )

    def updates(self) -> list[object]:
        return [row[2] for row in self.told if row[0] == "after"]


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    found = base_class()
    module, backend = types.ModuleType(BASE), types.ModuleType("keras.src.backend")
    module.BaseOptimizer = found  # type: ignore[attr-defined]
    backend.backend = lambda: "torch"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, BASE, module)
    monkeypatch.setitem(sys.modules, "keras.src.backend", backend)
    monkeypatch.delitem(sys.modules, SCALING, raising=False)
    return found


def test_a_step_is_told_before_and_after(base: type[Any]) -> None:
    seen = Seen()
    seen.keras.install()
    optimizer = base()
    optimizer.apply(["gradient"])
    assert seen.told == [("created", optimizer), ("before", optimizer), ("after", optimizer, True)]
    assert seen.clock.take().optimizer > 0
    optimizer.apply([])
    assert seen.updates() == [True, False], "no gradients, no update"
    assert optimizer.applied == 1


def test_a_step_that_fails_fails_as_before(base: type[Any]) -> None:
    seen = Seen()
    seen.keras.install()
    with pytest.raises(ValueError, match="overflow"):
        base().apply(["overflow"])
    assert seen.updates() == [False]
    assert seen.clock.innermost() is None


def test_gradients_that_are_only_added_up_are_no_update(base: type[Any]) -> None:
    seen = Seen()
    seen.keras.install()
    optimizer = base(gradient_accumulation_steps=3)
    with torch.no_grad():
        optimizer._iterations._value.fill_(4)  # as from a checkpoint
    for _ in range(6):
        optimizer.apply(["gradient"])
    assert seen.updates() == [False, True, False, False, True, False]


def test_with_another_library_below_keras_nothing_is_changed(
    base: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["keras.src.backend"], "backend", lambda: "jax")
    apply = base.apply
    Seen().keras.install()
    assert base.apply is apply


def test_gradients_that_overflowed_are_a_skipped_step(
    base: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class LossScaleOptimizer(base):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner_optimizer = inner

        def apply(self, grads: list[Any], trainable_variables: object = None) -> None:
            if "overflow" not in grads:
                self.inner_optimizer.apply(grads)

    module = types.ModuleType(SCALING)
    module.LossScaleOptimizer = LossScaleOptimizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, SCALING, module)
    seen = Seen()
    seen.keras.install()
    inner = base()
    scaled = LossScaleOptimizer(inner)
    scaled.apply(["gradient"])
    scaled.apply(["overflow"])
    assert seen.told == [
        ("created", inner),
        ("before", inner),
        ("after", inner, True),
        ("skipped", inner),
    ]


def test_tensors_of_an_optimizer_by_its_owner(base: type[Any]) -> None:
    optimizer = base()
    assert is_of_keras(optimizer)
    assert shapes(parameters_of(optimizer)) == [(3, 2), (2,)]
    assert shapes(state_of(optimizer)) == [(), (3, 2), (2,)]
    adam = type("Adam", (base,), {"__module__": "keras.src.backend.torch.optimizers.torch_adam"})()
    assert name_of(adam) == "keras.optimizers.Adam"

    plain = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], momentum=0.9)
    assert not is_of_keras(plain)
    assert name_of(plain) == "SGD"
    assert parameters_of(plain) == plain.param_groups[0]["params"]
    assert state_of(plain) == []
    plain.param_groups[0]["params"][0].grad = torch.ones(2)
    plain.step()
    assert shapes(state_of(plain)) == [(2,)]


def test_a_checkpoint_keeps_the_variables_of_an_optimizer_by_their_paths(base: type[Any]) -> None:
    optimizer = base()
    optimizer.variables = [Variable(path="sgd/iteration"), Variable(3, path="sgd/momentum")]
    kept = saved_state(optimizer)
    assert {path: tuple(tensor.shape) for path, tensor in kept.items()} == {
        "sgd/iteration": (),
        "sgd/momentum": (3,),
    }
    assert not any(tensor.requires_grad for tensor in kept.values())
    plain = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
    assert saved_state(plain) == plain.state_dict()


def test_the_state_of_an_optimizer_is_no_parameter_of_the_model(base: type[Any]) -> None:
    optimizer = base()
    with_state = live_tensors("cpu", [(None, optimizer)])
    optimizer.variables = []
    without = live_tensors("cpu", [(None, optimizer)])
    # Two matrices and a count of float32, which belong to nobody any more and are gone.
    assert with_state["optimizer_bytes"] == 4 * (1 + 6 + 2)
    assert without["optimizer_bytes"] == 0


@NEEDS_KERAS
@pytest.mark.capture
def test_the_optimizer_of_keras_is_a_phase(script: Callable[..., Path], run: Callable[..., Profile]) -> None:
    path = script(FIT)
    profile = run(path, steps=3, recorded=1)

    fact = profile.iteration
    assert fact is not None
    assert fact.boundary == "optimizer step"
    assert "one step of keras.optimizers.Adam (train.py line " in fact.meaning
    assert "in the loop of Keras" in fact.meaning
    optimizer = profile.optimizers[0]
    numbers = 64 * 256 + 256 + 256 * 8 + 8
    assert (optimizer.tensor_count, optimizer.parameter_count) == (4, numbers)
    assert min(profile.times.optimizer_ms) > 0
    phases = {record.phase for record in profile.trace.records}
    assert {Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER} <= phases
    assert profile.batch_size == 32
    assert profile.modules is not None
    assert sum(module.parameter_count for module in profile.modules) == numbers
    assert profile.memory is not None
    # Two moments for each number, the count of steps and the learning rate.
    assert 8 * numbers <= profile.memory.optimizer_bytes <= 8 * numbers + 64
    assert 4 * numbers <= profile.memory.parameter_bytes < 5 * numbers


@NEEDS_KERAS
@pytest.mark.capture
def test_several_batches_make_one_update_of_keras(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(ACCUMULATED), steps=3, recorded=1)
    fact = profile.iteration
    assert fact is not None
    assert (fact.boundary, fact.backward_passes, fact.optimizer_steps) == ("optimizer step", 4, 1)
    assert "gradient accumulation" in fact.styles
    assert profile.batch.samples_per_iteration == 128
