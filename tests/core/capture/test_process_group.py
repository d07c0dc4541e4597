"""The time that ranks wait for one that stands still."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="the child's side of capture needs torch")
pytest.importorskip("torch.distributed.distributed_c10d", reason="built without torch.distributed")

import torch
import torch.distributed.distributed_c10d as c10d

from skyline.capture.child.ranks import process_group

HALF_AN_HOUR = datetime.timedelta(minutes=30)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    heard: list[Any] = []

    def make(backend: Any = None, init_method: Any = None, timeout: Any = None, **rest: Any) -> None:
        heard.append(timeout)

    def group(ranks: Any = None, timeout: Any = None, backend: Any = None) -> None:
        heard.append(timeout)

    def default(backend: str) -> datetime.timedelta:
        return datetime.timedelta(minutes=10 if backend == "nccl" else 45)

    for name, stand_in in (("init_process_group", make), ("new_group", group)):
        monkeypatch.setattr(c10d, name, stand_in)
        monkeypatch.setattr(torch.distributed, name, stand_in)
    monkeypatch.setattr(c10d, "_get_default_timeout", default, raising=False)
    process_group.install()
    return heard


def test_the_default_of_nccl_is_raised_and_a_longer_one_stays(installed: list[Any]):
    limit: Callable[[Any], datetime.timedelta] = c10d._get_default_timeout
    assert limit("nccl") == HALF_AN_HOUR
    assert limit("gloo") == datetime.timedelta(minutes=45)


@pytest.mark.parametrize("module", [torch.distributed, c10d])
def test_limits_that_scripts_set_are_raised_too(installed: list[Any], module: Any):
    short, long = datetime.timedelta(seconds=5), datetime.timedelta(hours=2)
    calls: list[Callable[[], Any]] = [
        lambda: module.init_process_group("nccl", timeout=short),
        lambda: module.init_process_group("nccl", None, short),
        lambda: module.init_process_group("gloo", timeout=long),
        lambda: module.new_group([0], short),
        module.new_group,
    ]
    for call in calls:
        call()
    assert installed == [HALF_AN_HOUR, HALF_AN_HOUR, long, HALF_AN_HOUR, None]
