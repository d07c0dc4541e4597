"""Stages after the measurement of the script itself: if one fails, the profile remains valid, with a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture import batch_trials, session
from skyline.trace.profile import Profile

PLAIN = """\
import torch
w = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([w], lr=0.1)
while True:
    loss = (w * w).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SIZED = """\
import torch
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batch_size = 16
while True:
    loss = net(torch.ones(batch_size, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def broken(*arguments: object, **options: object) -> NoReturn:
    raise ZeroDivisionError("no rows")


@pytest.mark.capture
@pytest.mark.parametrize(
    ("place", "stage", "note"),
    [
        (session, "settle", "Could not time iterations after the recording: ZeroDivisionError: no rows"),
        (session, "counter_of", "Could not time more iterations: ZeroDivisionError: no rows"),
        (batch_trials, "in_turns", "Could not measure other batch sizes: ZeroDivisionError: no rows"),
        (session, "config_trials", "Could not try other threads and number formats: ZeroDivisionError"),
    ],
)
def test_a_late_stage_that_fails_costs_a_note_and_not_the_profile(
    script: Callable[..., Path],
    run: Callable[..., Profile],
    monkeypatch: pytest.MonkeyPatch,
    place: ModuleType,
    stage: str,
    note: str,
) -> None:
    monkeypatch.setattr(place, stage, broken)
    curve = stage == "in_turns"
    profile = run(script(SIZED if curve else PLAIN), batch_points=1 if curve else 0, trials=True)
    assert profile.times.steps_ms
    assert profile.trace.records
    assert any(one.startswith(note) for one in profile.notes)
    assert note in " ".join(analyse(profile).notes), "the report shows it"
