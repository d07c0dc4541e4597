"""Each listener hears once of a switch between training and evaluation."""

from __future__ import annotations

import pytest
import torch

from skyline.capture.child.mode_switch import ModeSwitch


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> ModeSwitch:
    monkeypatch.setattr(torch.nn.Module, "train", torch.nn.Module.train)
    made = ModeSwitch()
    made.install()
    return made


def test_the_outermost_switch_is_told_after_it_was_made(switch: ModeSwitch) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    told: list[tuple[torch.nn.Module, bool]] = []

    def heard(module: torch.nn.Module, mode: bool) -> None:
        assert [part.training for part in module.modules()] == [mode] * 3
        told.append((module, mode))

    switch.listen(heard)
    assert model.eval() is model
    model.train()
    assert told == [(model, False), (model, True)]


def test_who_left_hears_no_more(switch: ModeSwitch) -> None:
    first: list[bool] = []
    second: list[bool] = []

    def hear_first(_: torch.nn.Module, mode: bool) -> None:
        first.append(mode)

    switch.listen(hear_first)
    switch.listen(lambda _, mode: second.append(mode))
    model = torch.nn.Linear(2, 2)
    model.eval()
    switch.leave(hear_first)
    switch.leave(hear_first)
    model.train()
    assert (first, second) == ([False], [False, True])


def test_a_switch_that_fails_is_not_told_and_the_next_one_is(switch: ModeSwitch) -> None:
    told: list[bool] = []
    switch.listen(lambda _, mode: told.append(mode))
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="boolean"):
        model.train("no")  # type: ignore[arg-type]
    model.eval()
    assert told == [False]
