"""What comes after the script itself was measured: where it fails the profile stands, with a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from skyline.analysis.analyse import analyse
from skyline.attempt import Attempts
from skyline.capture import session, trials
from skyline.capture.events import StepRow
from skyline.capture.rounds import Contender, measure_in_rounds
from skyline.trace.iteration_trial import IterationTrial
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


class Run(Contender):
    """A run at another batch size; the base's script ends in its first turn."""

    ends: bool = False

    def turn(self, rounds: int) -> float | None:
        if self.ends:
            return None
        self.rows.rows.append(StepRow(self.typical_ms, 0.0, 0.0, 0.0, 1, 1, 1))
        return self.typical_ms


def test_runs_that_never_had_their_turn_are_left_out_of_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script ended in the base's turn: the others are alive, and no iteration of theirs was kept."""
    base, smaller, larger = (Run(size, cast(Any, None), 5.0, 1, (size,)) for size in (16, 8, 32))
    base.ends = True
    assert measure_in_rounds(base, [smaller, larger], 60.0) == []
    assert smaller.alive
    tried = cast("tuple[IterationTrial, ...]", (object(), object()))
    monkeypatch.setattr(trials, "iteration_trials", lambda *rest, **options: tried)
    facts = SimpleNamespace(world_size=1, styles=(), environment=None)
    request = SimpleNamespace(side_effects="redirect")
    rows = SimpleNamespace(median_ms=5.0)
    recording = SimpleNamespace(trace=None, settings=None)
    monkeypatch.setattr(trials, "replace", lambda run, **changes: changes)
    run = SimpleNamespace(facts=facts, request=request, rows=rows, recording=recording, batch_size=16)
    late = Attempts()
    found = trials.with_trials(cast(Any, run), cast(Any, None), [smaller, larger], late, anew=broken)
    assert cast("dict[str, object]", found) == {"iteration_trials": tried}
    assert late.notes == ()


@pytest.mark.capture
@pytest.mark.parametrize(
    ("place", "stage", "note"),
    [
        (session, "settle", "Could not time more iterations: ZeroDivisionError: no rows"),
        (session, "measure_in_rounds", "Could not measure other batch sizes: ZeroDivisionError: no rows"),
        (trials, "iteration_trials", "Could not try other threads and number formats: ZeroDivisionError"),
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
    curve = stage == "measure_in_rounds"
    profile = run(script(SIZED if curve else PLAIN), batch_points=1 if curve else 0, trials=True)
    assert profile.times.steps_ms
    assert profile.trace.records
    assert any(one.startswith(note) for one in profile.notes)
    assert note in " ".join(analyse(profile).notes), "the report shows it"
