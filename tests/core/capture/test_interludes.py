"""Work between updates: evaluation, roll-outs, saved files and the log have times of their own."""

from __future__ import annotations

import logging
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from skyline.capture.child import interludes
from skyline.capture.child.interludes import Interludes
from skyline.capture.child.mode_switch import ModeSwitch
from skyline.capture.child.part_clock import PartClock, Parts
from skyline.trace.profile import Profile

EVERY_FOURTH = """
import io
import logging
import torch
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(stream=io.StringIO(), level=logging.INFO)
data = TensorDataset(torch.randn(4096, 16), torch.randn(4096, 1))
test = DataLoader(TensorDataset(torch.randn(320, 16)), batch_size=16)
loader = DataLoader(data, batch_size=16)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = 0
while True:
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count += 1
        if count % 4 == 0:
            model.eval()
            with torch.no_grad():
                for (x,) in test:
                    model(x)
            model.train()
            torch.save(model.state_dict(), "model.pt")
            logging.info("loss %s", loss)
"""


class Clocked:
    """Interludes of a clock that is set by hand, with the hooks taken back afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(interludes, "_clock", lambda: self.now)
        monkeypatch.setattr("skyline.capture.child.part_clock._clock", lambda: self.now)
        monkeypatch.setattr(torch.nn.Module, "train", torch.nn.Module.train)
        monkeypatch.setattr(torch, "save", torch.save)
        monkeypatch.setattr(torch.serialization, "save", torch.serialization.save)
        monkeypatch.setattr(logging.Handler, "handle", logging.Handler.handle)
        self.clock = PartClock()
        self.compiled = False
        self.switch = ModeSwitch()
        self.interludes = Interludes(self.clock, self.switch, lambda: self.compiled)

    def install(self) -> None:
        self.switch.install()
        self.interludes.install()
        self.interludes.start()

    def passing(self, seconds: float) -> None:
        self.now += seconds

    def taken(self) -> Parts:
        self.interludes.end()
        return self.clock.take()

    def fetched(self, seconds: float) -> None:
        self.clock.enter("data")
        self.passing(seconds)
        self.clock.leave()


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    made = Clocked(monkeypatch)
    made.install()
    return made


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The base class of a library of environments, with one derived class that was there before the hooks."""

    class Env:
        def step(self, action: int) -> int:
            raise NotImplementedError

    class Wrapper(Env):
        def __init__(self, env: Env, clocked: Clocked) -> None:
            self.env, self.clocked = env, clocked

        def step(self, action: int) -> int:
            self.clocked.passing(1)
            return self.env.step(action)

    module = types.ModuleType("gymnasium.core")
    module.Env, module.Wrapper = Env, Wrapper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gymnasium.core", module)
    return Env


MODEL = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())


def test_evaluation_lasts_from_switch_to_switch(clocked: Clocked) -> None:
    model = MODEL.train()
    clocked.passing(1)
    model.eval()
    clocked.passing(2)
    clocked.fetched(4)
    with torch.no_grad():
        model(torch.zeros(1, 2))
    clocked.passing(8)
    model.train()
    clocked.passing(16)
    parts = clocked.taken()
    assert parts.evaluation == 14, "with the batches that it waits for"
    assert parts.data == 0
    assert not model._forward_hooks


def test_evaluation_without_a_switch_back_ends_with_its_last_call(clocked: Clocked) -> None:
    model = MODEL.train()
    model.eval()
    clocked.passing(2)
    with torch.no_grad():
        model(torch.zeros(1, 2))
    clocked.passing(4)
    clocked.fetched(8)
    parts = clocked.taken()
    assert (parts.evaluation, parts.data) == (2, 8)


def test_a_part_that_is_called_by_itself_counts_too(clocked: Clocked) -> None:
    MODEL.train().eval()
    clocked.passing(2)
    with torch.no_grad():
        MODEL[0](torch.zeros(1, 2))
    MODEL.train()
    assert clocked.taken().evaluation == 2


def test_layers_that_are_kept_in_evaluation_are_none(clocked: Clocked) -> None:
    model = MODEL.train()
    model[1].eval()
    clocked.passing(2)
    model(torch.zeros(1, 2))
    clocked.passing(2)
    assert clocked.taken().evaluation == 0


def test_beside_compiled_code_nothing_gets_a_hook(clocked: Clocked) -> None:
    clocked.compiled = True
    MODEL.train().eval()
    assert not MODEL._forward_hooks
    clocked.passing(2)
    with torch.no_grad():
        MODEL(torch.zeros(1, 2))
    assert clocked.taken().evaluation == 0


def test_saving_within_an_evaluation_is_saving(clocked: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.train().eval()
    with torch.no_grad():
        MODEL(torch.zeros(1, 2))
    clocked.passing(1)

    class File:
        def write(self, data: bytes) -> int:
            clocked.passing(2)
            return len(data)

        def flush(self) -> None:
            """As of a file."""

    file: Any = File()
    torch.save(1, file)
    clocked.passing(4)
    MODEL.train()
    parts = clocked.taken()
    assert parts.saving >= 2
    assert parts.evaluation == 5


def test_a_log_has_a_time_of_its_own_on_the_thread_of_the_script(clocked: Clocked) -> None:
    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            clocked.passing(3)

    logger = logging.getLogger("test_interludes")
    logger.propagate = False
    handler = Slow()
    logger.addHandler(handler)
    try:
        logger.warning("here")
        other = threading.Thread(target=logger.warning, args=("elsewhere",))
        other.start()
        other.join()
    finally:
        logger.removeHandler(handler)
    assert clocked.taken().logging == 3


def test_a_roll_out_lasts_from_its_first_step_to_its_last(
    environments: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = Clocked(monkeypatch)
    wrapper = sys.modules["gymnasium.core"].Wrapper  # type: ignore[attr-defined]
    clocked.install()

    class Game(environments):
        def step(self, action: int) -> int:
            clocked.passing(10)
            return action

    game = wrapper(Game(), clocked)
    model = MODEL.train()
    clocked.passing(1)
    model.eval()
    for _ in range(3):
        with torch.no_grad():
            model(torch.zeros(1, 2))
        clocked.passing(100)  # a decision
        game.step(1)
    model.train()
    clocked.passing(1000)
    parts = clocked.taken()
    assert parts.rollout == 3 * 11 + 2 * 100
    assert parts.evaluation == 0, "deciding is no evaluation"
    assert clocked.taken().rollout == 0


@pytest.mark.capture
def test_evaluation_saving_and_logging_of_a_script_are_told_apart(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    times = run(script(EVERY_FOURTH), steps=24).times
    parts = (times.evaluation_ms, times.saving_ms, times.logging_ms)
    first, *others = ([place for place, ms in enumerate(part) if ms > 0] for part in parts)
    assert others == [first, first]
    # Some iterations between the series that are timed do not count.
    assert len(times.steps_ms) / 6 < len(first) < len(times.steps_ms) / 3
    assert sum(times.rollout_ms) == 0
