"""Another config for a while: threads, and autocast around all but loading, backward passes and updates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from skyline.capture.child.part_clock import PartClock
from skyline.capture.child.trials import ExecutionConfig


@pytest.fixture
def config() -> Iterator[ExecutionConfig]:
    before, made = torch.get_num_threads(), ExecutionConfig()
    yield made
    made.change(before, "")


def autocast_on() -> bool:
    return torch.is_autocast_enabled("cpu")


def test_autocast_stops_where_a_part_begins_and_goes_on_behind_it(config: ExecutionConfig) -> None:
    clock = PartClock(config.follow)
    config.change(1, "bfloat16")
    assert autocast_on()
    assert torch.get_num_threads() == 1
    seen = {}
    for part in ("data", "backward", "optimizer"):
        clock.enter(part)
        seen[part] = autocast_on()
        clock.leave()
        assert autocast_on()
    assert not any(seen.values())


def test_what_an_optimizer_calls_back_runs_under_autocast(config: ExecutionConfig) -> None:
    clock = PartClock(config.follow)
    config.change(1, "bfloat16")
    clock.enter("optimizer")
    clock.enter("closure")
    assert autocast_on()
    clock.enter("backward")
    assert not autocast_on()
    clock.leave()
    assert autocast_on()
    clock.leave()
    assert not autocast_on()
    clock.leave()


def test_weights_are_cast_anew_after_an_update(config: ExecutionConfig) -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    clock = PartClock(config.follow)
    config.change(1, "bfloat16")
    for expected in (4.0, 8.0):
        assert torch.mm(torch.ones(1, 4), weight)[0, 0].item() == expected
        clock.enter("optimizer")
        with torch.no_grad():
            weight.mul_(2.0)
        clock.leave()


def test_the_script_s_own_configuration_is_restored(config: ExecutionConfig) -> None:
    clock = PartClock(config.follow)
    config.change(1, "bfloat16")
    config.change(2, "")
    assert not autocast_on()
    assert torch.get_num_threads() == 2
    clock.enter("data")
    clock.leave()
    assert not autocast_on()
