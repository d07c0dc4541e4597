"""Gradients are compared within a run, whose training is then as if they had not been."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.capture.events import LoaderSeen, StepRow
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.training_session import (
    around_saves_s,
    epoch_end_s,
    observe_training,
    typical_ms,
)
from skyline.errors import CaptureImpossible
from skyline.predict.noise_scale import noise_scale
from skyline.trace.observed_training import ObservedTraining

WITH_STATE = """
import torch
from torch import nn

torch.manual_seed(1)
inputs, targets = torch.randn(16, 8), torch.randn(16, 1)
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range({steps}):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    kept = [*model.state_dict().values(), *optimizer.state[model[0].weight].values()]
    state = sum(float(one.double().sum()) for one in kept)
    print("row", loss.item(), state, flush=True)
"""
KNOWN = """
import torch

torch.manual_seed(3)
weight = torch.nn.Parameter(torch.zeros(50))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(100_000):
    samples = torch.randn(32, 50) * 4 + 0.5
    optimizer.zero_grad()
    # The gradient of a sample is the sample: noise scale 50 * 16 / (50 * 0.25) = 64, whatever the loss is scaled by.
    for half in samples.chunk(2):
        (1000 * (half * weight).sum(1).mean()).backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    optimizer.step()
"""

Script = Callable[..., Path]


@pytest.fixture
def observed(starter: Starter) -> Callable[..., ObservedTraining]:
    def observe(path: Path, samples: int, seconds: float, heard: list[str] | None = None) -> ObservedTraining:
        request = CaptureRequest(path, warmup=3, timeout_s=60.0, working_directory=path.parent)
        output = (heard if heard is not None else []).append
        return observe_training(
            request, samples, seconds, progress=lambda _: None, output=output, starter=starter
        )

    return observe


@pytest.mark.capture
def test_the_training_goes_on_as_if_nothing_had_been_compared(
    script: Script, observed: Callable[..., ObservedTraining]
) -> None:
    path = script(WITH_STATE.format(steps=1500))
    heard: list[str] = []
    found = observed(path, 16, 0.3, heard)
    assert found.startup_s > 0
    rows = [line for line in "".join(heard).splitlines() if line.startswith("row")]
    for sample in reversed(found.gradients):
        window = slice(sample.iteration, sample.iteration + len(sample.products))
        losses = {row.split()[1] for row in rows[window]}
        assert len(losses) > 1, "dropout makes the losses of a frozen model differ"
        del rows[window]
    alone = script(WITH_STATE.format(steps=len(rows)), "alone.py")
    plain = subprocess.run(
        [sys.executable, str(alone)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(rows) > found.gradients[0].iteration
    assert rows == plain


@pytest.mark.capture
def test_a_known_noise_scale_is_found_behind_clipping_and_accumulation(
    script: Script, observed: Callable[..., ObservedTraining]
) -> None:
    found = observed(script(KNOWN), 32, 0.5)
    scales = [noise_scale(one, 32, None) for one in found.gradients]
    assert len(scales) >= 2
    assert all(one is not None for one in scales)
    inside = [one for one in scales if one and one.low * 0.8 <= 64 <= (one.high or 1e9) * 1.25]
    assert len(inside) >= len(scales) - 1
    assert found.gradients[-1].loss is not None
    assert found.epoch_end_s is None


@pytest.mark.capture
def test_two_updates_in_an_iteration_have_no_noise_scale(
    script: Script, observed: Callable[..., ObservedTraining]
) -> None:
    source = KNOWN.replace(
        "    optimizer.step()\n", "    optimizer.step()\n    weight.sum().backward()\n    other.step()\n"
    )
    source = source.replace("for step", "other = torch.optim.SGD([weight], lr=0.1)\nfor step")
    with pytest.raises(CaptureImpossible, match="several times in an iteration"):
        observed(script(source), 32, 0.2)


@pytest.mark.capture
def test_weights_that_change_for_others_have_no_noise_scale(
    script: Script, observed: Callable[..., ObservedTraining]
) -> None:
    renewed = """    if step % 2:
        weight = torch.nn.Parameter(torch.zeros(50))
        optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.zero_grad()
"""
    source = KNOWN.replace("    optimizer.zero_grad()\n", renewed)
    with pytest.raises(CaptureImpossible, match="another optimizer"):
        observed(script(source), 32, 0.2)


LOADER = LoaderSeen(10, 0, 100, 50, False, False, None, iterations=50)


def test_the_first_iteration_of_an_epoch_holds_the_end_of_the_last() -> None:
    rows = dict.fromkeys(range(3, 35), 10.0) | {11: 510.0, 21: 490.0, 31: 490.0}
    assert epoch_end_s(rows, [LOADER]) == pytest.approx(0.480)
    assert epoch_end_s(dict.fromkeys(range(3, 35), 10.0), [LOADER]) == 0.0
    assert epoch_end_s(dict.fromkeys(range(3, 9), 10.0), [LOADER]) is None
    assert epoch_end_s(rows, []) is None
    # 105 samples: the last five are dropped here, every epoch has ten batches.
    assert epoch_end_s(rows, [replace(LOADER, dataset_size=105)]) == pytest.approx(0.480)


def test_the_typical_iteration_has_no_part_of_a_save() -> None:
    bare, saves = StepRow(10.0, 0.0, 5.0, 1.0, 1, 1), StepRow(30.0, 0.0, 5.0, 1.0, 1, 1, saving_ms=20.0)
    assert typical_ms([bare, saves, bare, saves]) == 10.0
    assert typical_ms([saves, saves]) == 10.0
    # State dictionaries that are copied belong to the iterations with a save, and so does none of the others.
    copies = replace(saves, step_ms=36.0)
    assert typical_ms([bare, copies, bare, copies, bare, copies]) == 10.0


def test_the_time_around_a_save_is_that_of_its_iteration_beyond_another() -> None:
    bare, saves = StepRow(10.0, 0.0, 5.0, 1.0, 1, 1), StepRow(36.0, 0.0, 5.0, 1.0, 1, 1, saving_ms=20.0)
    assert around_saves_s([bare, saves] * 3) == pytest.approx(0.006)
    assert around_saves_s([bare, replace(saves, step_ms=28.0)] * 3) == 0.0
    assert around_saves_s([bare, saves, bare, saves, bare]) == 0.0
    assert around_saves_s([saves] * 5) == 0.0


SAVING = """
import torch

weight = torch.nn.Parameter(torch.zeros(50))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(100_000):
    optimizer.zero_grad()
    (torch.randn(32, 50) * weight).sum().backward()
    optimizer.step()
    if step % 40 == 0:
        torch.save({"weight": weight}, "weight.pt")
        with open("other.pt", "wb") as file:
            torch.save(weight, file)
"""


@pytest.mark.capture
def test_saves_are_timed_with_their_line_and_size(
    script: Script, observed: Callable[..., ObservedTraining]
) -> None:
    path = script(SAVING)
    found = observed(path, 32, 0.5)
    assert len(found.saves) >= 4
    lines = {one.line.line for one in found.saves if one.line is not None}
    assert lines == {11, 13}
    assert all(one.seconds > 0 and one.size_bytes > 200 for one in found.saves)
    steps = sorted({one.iteration for one in found.saves})
    assert all(later - earlier == 40 for earlier, later in itertools.pairwise(steps))
    assert not (path.parent / "weight.pt").exists()
