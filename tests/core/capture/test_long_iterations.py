"""Optimizer steps that take too long to be measured whole, and long iterations that cannot be cut."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.bare import BareRows, iterations_to_record
from skyline.capture.events import StepRow
from skyline.capture.request import CaptureRequest
from skyline.trace.profile import Profile

pytest.importorskip("torch", reason="the child's side of capture needs torch")

from skyline.capture.child.long_iteration import LongIteration

CLOSURE = """
import torch

x = torch.randn(64, 32)
model = torch.nn.Linear(32, 16)
optimizer = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=1_000_000, max_eval=1_000_000)
optimizer.param_groups[0].update(tolerance_grad=-1, tolerance_change=-1)

def closure():
    optimizer.zero_grad()
    loss = (model(x) + torch.randn(64, 16)).square().mean()
    loss.backward()
    return loss

optimizer.step(closure)
"""
ACCUMULATING = """
import torch

model = torch.nn.Linear(32, 1)
optimizer = torch.optim.Adam(model.parameters())
batch_size = 8
for update in range(10):
    for part in range(1_000_000):
        model(torch.randn(batch_size, 32)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.capture
def test_a_step_that_does_not_end_is_measured_by_its_closure(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(CLOSURE), steps=3, recorded=1, settle_s=0.1, longest_step_s=0.1)

    fact = profile.iteration
    assert fact is not None
    assert (fact.boundary, fact.optimizer_steps, fact.backward_passes) == ("backward pass", 0, 1)
    assert fact.meaning == "one evaluation of the closure (train.py line 12), of the many in a step of LBFGS"
    assert any("one evaluation of the closure" in note for note in profile.notes)
    assert profile.batch.samples_per_iteration in {None, 64}
    # The time of the closure is not counted as the optimizer's, nor that of the waiting child.
    assert all(
        part < step for part, step in zip(profile.times.optimizer_ms, profile.times.steps_ms, strict=True)
    )
    assert [fact.name for fact in profile.optimizers] == ["LBFGS"]


@pytest.mark.capture
def test_a_long_accumulation_is_measured_by_its_passes(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    profile = run(script(ACCUMULATING), steps=3, recorded=1, settle_s=0.1, longest_step_s=0.1)

    assert profile.iteration is not None
    assert profile.iteration.meaning == (
        "one forward and backward pass (train.py line 9), of the many before a step of Adam"
    )
    assert profile.batch.samples_per_iteration == 8


def passes(long: LongIteration, lines: str) -> list[bool]:
    """True for each pass that ends an iteration; the passes come from these lines."""
    code = {
        line: compile("\n" * int(line) + "found.append(long.passed())", __file__, "exec")
        for line in set(lines)
    }
    found: list[bool] = []
    for line in lines:
        exec(code[line], {"found": found, "long": long})
    return found


def test_passes_end_an_iteration_once_it_is_long() -> None:
    long = LongIteration(0.05)
    assert passes(long, "111") == [False, False, False]
    time.sleep(0.06)
    assert passes(long, "11") == [True, True]
    assert not long.ended()
    long.fix()
    assert passes(long, "1") == [True]


def test_passes_of_several_lines_are_no_parts_of_one_kind() -> None:
    long = LongIteration(0.0)
    assert passes(long, "1") == [False]
    assert long.ended()
    assert passes(long, "12222") == [False] * 5
    assert long.ended()
    assert passes(long, "12") == [False, False]
    assert long.pass_ms() is None


def test_without_a_limit_iterations_stay_whole() -> None:
    assert passes(LongIteration(None), "11111") == [False] * 5


@pytest.mark.parametrize(
    ("step_ms", "lightly", "full"), [(10.0, 3, 2), (2_000.0, 1, 2), (5_000.0, 0, 1), (60_000.0, 0, 1)]
)
def test_long_iterations_are_recorded_once(step_ms: float, lightly: int, full: int) -> None:
    rows = BareRows([StepRow(step_ms, 0.0, 0.0, 0.0, 1, 1)])
    assert iterations_to_record(CaptureRequest(Path("train.py")), rows) == (lightly, full)
