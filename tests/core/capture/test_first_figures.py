"""The first figures of a profile: they are shown once iterations are recorded, before anything that can wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.session import capture
from skyline.interval import interval_of_series
from skyline.report.build import profile_report
from skyline.trace.profile import Profile

LOADED = """\
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.ones(4096, 8))
while True:
    for (batch,) in DataLoader(data, batch_size=16, num_workers=1):
        loss = net(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
"""


SIZED = """\
import time
import torch
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batch_size = 16
while True:
    loss = net(torch.ones(batch_size, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
"""


@pytest.mark.capture
def test_first_figures_come_before_further_iterations(script: Callable[..., Path], starter: Starter) -> None:
    path = script(LOADED)
    said: list[str] = []
    shown: list[tuple[Profile, list[str]]] = []

    def told(progress: Progress) -> None:
        said.append(progress.message)

    request = CaptureRequest(
        path, working_directory=path.parent, settle_s=1.0, batch_points=0, trials=False, timeout_s=60.0
    )
    finished = capture(
        request, progress=told, on_partial=lambda profile: shown.append((profile, [*said])), starter=starter
    )
    ((first, before),) = shown
    assert "recording iterations" in before
    assert "timing more iterations" not in before
    assert "timing more iterations" in said
    assert profile_report(analyse(first)).phases
    assert finished.paired_ms
    assert not first.paired_ms
    assert len(first.times.steps_ms) == 3 < len(finished.times.steps_ms)
    assert not set(first.times.steps_ms) & set(finished.times.steps_ms), "those of the end of the warm-up"
    assert len(first.trace.iterations) == 1 < len(finished.trace.iterations)
    assert len(finished.notes) == len(set(finished.notes))
    assert first.id != finished.id, "front ends read the figures again"
    assert first.values is None
    assert finished.values is not None


@pytest.mark.capture
def test_figures_become_sharper_as_measurements_come_in(
    script: Callable[..., Path], starter: Starter
) -> None:
    path = script(SIZED)
    shown: list[Profile] = []
    request = CaptureRequest(
        path, working_directory=path.parent, settle_s=0.5, batch_points=1, budget_s=8.0, timeout_s=60.0
    )
    finished = capture(request, progress=lambda _: None, on_partial=shown.append, starter=starter)
    first, settled, with_curve = shown
    assert first.first
    assert not settled.first
    assert len({one.id for one in (*shown, finished)}) == 4, "front ends read the figures again"
    assert len(settled.trace.iterations) > len(first.trace.iterations)
    assert [len(one.trials) for one in (first, settled)] == [0, 0]
    assert with_curve.trials
    assert all(one.choices.threads is None for one in with_curve.trials)
    assert any(one.choices.threads is not None for one in finished.trials)


@pytest.mark.capture
def test_the_range_of_first_figures_has_room_for_later_iterations(
    script: Callable[..., Path], starter: Starter
) -> None:
    path = script(LOADED)
    said: list[Progress] = []
    shown: list[Profile] = []
    request = CaptureRequest(
        path, working_directory=path.parent, settle_s=1.0, batch_points=0, trials=False, timeout_s=60.0
    )
    finished = capture(request, progress=said.append, on_partial=shown.append, starter=starter)
    (first,) = shown
    scatter = interval_of_series(first.times.steps_ms)
    shown_ms = profile_report(analyse(first)).iteration_ms
    assert shown_ms == first.iteration_ms
    assert shown_ms.value == scatter.value
    assert shown_ms.low < scatter.low
    assert shown_ms.high > scatter.high
    known = [one.known.iteration_ms for one in said if one.known is not None and one.known.iteration_ms]
    assert known == [shown_ms], "the first number that a person sees"
    assert finished.iteration_ms == interval_of_series(finished.times.steps_ms), (
        "final figures keep their range"
    )


@pytest.mark.capture
def test_a_script_that_ends_behind_its_first_figures_keeps_them(
    script: Callable[..., Path], starter: Starter
) -> None:
    path = script(LOADED.replace("while True", "for _ in range(1)").replace("4096", "224"))
    request = CaptureRequest(
        path, working_directory=path.parent, settle_s=1.0, batch_points=0, trials=False, timeout_s=60.0
    )
    shown: list[Profile] = []
    finished = capture(request, progress=lambda _: None, on_partial=shown.append, starter=starter)
    (first,) = shown
    assert len(finished.times.steps_ms) >= len(first.times.steps_ms)
    assert not set(first.times.steps_ms) & set(finished.times.steps_ms), "those behind the recording"
    assert first.trace == finished.trace
    assert not finished.first
    assert profile_report(analyse(finished)).phases
    assert finished.values is not None, "one iteration shows the zeros, before the script ends"
    assert [one.path for one in finished.values.zeros] == ["Linear"]


@pytest.mark.capture
def test_without_time_for_further_iterations_the_first_figures_stay(
    script: Callable[..., Path], starter: Starter
) -> None:
    path = script(LOADED.replace("0.02", "0.05"))
    request = CaptureRequest(path, working_directory=path.parent, settle_s=0.1, budget_s=0.1, timeout_s=60.0)
    shown: list[Profile] = []
    finished = capture(request, progress=lambda _: None, on_partial=shown.append, starter=starter)
    (first,) = shown
    # Four iterations of 50 ms do not fit in 0.1 s; those between the turns of other batch sizes are there anyway.
    count = len(first.times.steps_ms)
    assert finished.times.steps_ms[:count] == first.times.steps_ms
    assert len(finished.times.steps_ms) > count
    assert finished.trace == first.trace
    assert finished.values is None
    assert len(finished.trials) == 2, "a curve has two sizes whatever they take"
    assert any(note.startswith("Batch size") for note in finished.notes)
