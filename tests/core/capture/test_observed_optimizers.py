"""Optimizers that follow each other or take turns: the one whose step ends an iteration."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from skyline.capture.child.observed_optimizers import ObservedOptimizers
from skyline.trace.profile import Profile

LINE = {"file": "train.py", "line": 7, "function": "main"}
OTHER_LINE = {"file": "train.py", "line": 9, "function": "main"}

A_NEW_ONE_FOR_EACH_CLIENT = """
import copy
import torch

everyone = torch.nn.Linear(8, 1)

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(15):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
    return model.state_dict()

while True:
    for client in range(4):
        weights = train(copy.deepcopy(everyone))
    everyone.load_state_dict(weights)
"""
ONE_OF_EACH_CLIENT = """
import torch

class Client:
    def __init__(self):
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self):
        for step in range(40):
            self.optimizer.zero_grad()
            self.model(torch.randn(16, 8)).square().mean().backward()
            self.optimizer.step()

clients = [Client() for _ in range(1000)]
while True:
    for client in clients:
        client.train()
"""


def _made(observed: ObservedOptimizers, line: dict[str, object] = LINE) -> torch.optim.SGD:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    observed.created(optimizer, line)
    return optimizer


def _step(observed: ObservedOptimizers, optimizer: torch.optim.SGD, times: int = 1) -> list[bool]:
    return [observed.stepped(observed.seen(optimizer)) for _ in range(times)]


def _fixed(observed: ObservedOptimizers, *optimizers: torch.optim.SGD) -> None:
    """A warm-up of two iterations in which each of these steps once."""
    for _ in range(2):
        for optimizer in optimizers:
            _step(observed, optimizer)
        observed.iteration_ended()
    observed.fix_anchor()


@pytest.mark.capture
@pytest.mark.parametrize(
    "text", [A_NEW_ONE_FOR_EACH_CLIENT, ONE_OF_EACH_CLIENT], ids=["a new one", "side by side"]
)
def test_iterations_go_on_where_another_optimizer_does_the_same_work(
    text: str, script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(text), steps=90, recorded=1, settle_s=0.1, timeout_s=20.0)

    fact = profile.iteration
    assert fact is not None
    assert (fact.boundary, round(fact.backward_passes)) == ("optimizer step", 1)
    assert fact.meaning.startswith("one step of SGD (train.py line ")


def test_a_new_one_continues_the_one_that_is_gone() -> None:
    observed = ObservedOptimizers()
    first = _made(observed)
    _fixed(observed, first)
    for _ in range(3):
        del first
        gc.collect()
        first = _made(observed)
        assert _step(observed, first, 3) == [True, True, True]
    ((seen, optimizer),) = observed.in_use()
    assert (optimizer, seen.steps, seen.created, observed.made) == (first, 11, LINE, 4)


def test_one_made_before_the_earlier_is_gone_continues_it_too() -> None:
    observed = ObservedOptimizers()
    optimizer = _made(observed)
    _fixed(observed, optimizer)
    for _ in range(3):
        # The name is bound again after the construction.
        optimizer = _made(observed)
        assert _step(observed, optimizer, 2) == [True, True]


def test_one_that_is_gone_does_not_stop_the_warm_up() -> None:
    observed = ObservedOptimizers()
    first = _made(observed, OTHER_LINE)
    _step(observed, first, 2)
    del first
    gc.collect()
    second = _made(observed)
    assert _step(observed, second, 4) == [True] * 4


def test_two_new_ones_keep_the_parts_of_the_earlier() -> None:
    observed = ObservedOptimizers()
    critic, generator = _made(observed), _made(observed, OTHER_LINE)
    for _ in range(2):
        _step(observed, critic, 5)
        _step(observed, generator)
        observed.iteration_ended()
    observed.fix_anchor()
    del critic, generator
    gc.collect()
    critic, generator = _made(observed), _made(observed, OTHER_LINE)
    assert _step(observed, critic, 5) == [False] * 5
    assert _step(observed, generator) == [True]


def test_one_that_takes_turns_with_the_anchor_takes_its_place() -> None:
    observed = ObservedOptimizers()
    first, second = _made(observed), _made(observed)
    _fixed(observed, first)
    assert _step(observed, second, 4) == [False, True, True, True]
    # The first stepped once in each iteration of the warm-up, and might be one of several that do.
    assert _step(observed, first, 4) == [False, False, True, True]


def test_those_that_step_in_each_iteration_stay_what_they_are() -> None:
    observed = ObservedOptimizers()
    optimizers = [_made(observed) for _ in range(3)]
    _fixed(observed, *optimizers)
    for _ in range(4):
        assert [_step(observed, optimizer) for optimizer in optimizers] == [[False], [False], [True]]


def test_another_kind_of_step_does_not_become_the_anchor() -> None:
    observed = ObservedOptimizers()
    first, second = _made(observed), _made(observed, OTHER_LINE)
    _fixed(observed, first)
    assert _step(observed, second, 4) == [False] * 4
