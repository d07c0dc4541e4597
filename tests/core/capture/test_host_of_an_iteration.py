"""The time of the host in an iteration, without its wait for the device at the end."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from skyline.capture.child.devices import step_clock
from skyline.capture.child.devices.in_use import DevicesInUse


def test_the_wait_for_the_device_is_not_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(step_clock, "_clock", lambda: now[0])
    clock = step_clock.StepClock()
    clock.begin(DevicesInUse())
    assert clock.host_ms() == 0
    clock.leave()
    now[0] = 0.010
    clock.reach()
    now[0] = 0.025
    clock.arrive()
    assert clock.host_ms() == pytest.approx(10)
    assert clock.steps_ms() == pytest.approx([25])
