"""Products tried in bfloat16 in the process that ran the script."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from skyline.capture.child import trials
from skyline.capture.narrow_trials import narrow_trials
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.trace.narrow_trial import PRODUCTS
from skyline.trace.phase import Phase
from skyline.trace.profile import Profile
from skyline.trace.record import IterationMark, Record, RecordKind, Trace
from skyline.trace.shape import OperatorShape

pytestmark = pytest.mark.capture

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
head = nn.Linear(8, 4)
optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=0.01)
print("drawn", torch.rand(1).item())
for step in range(10_000):
    images = torch.ones(16, 3, 16, 16)
    features = conv(images).mean((2, 3))
    attended = F.scaled_dot_product_attention(*[features.view(1, 2, 8, 8)] * 3)
    loss = (head(features) @ torch.ones(4, 2)).square().mean() + attended.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _profile(path: Path, **options: object) -> Profile:
    asked = CaptureRequest(
        path, working_directory=path.parent, warmup=2, steps=2, settle_s=0.0, timeout_s=60.0, **options
    )
    return capture(asked, progress=lambda _: None)


def test_the_products_of_the_script_are_tried_with_their_sizes_and_strides(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    profile = _profile(path, batch_points=0)
    if profile.environment.device.kind != "cpu":
        pytest.skip("only products of a CPU are tried")
    found = {trial.operator: trial for trial in profile.narrow_trials}
    assert {
        "aten::conv2d",
        "aten::linear",
        "aten::matmul",
        "aten::scaled_dot_product_attention",
    } <= set(found)
    assert set(found) <= set(PRODUCTS)
    # Half of 16 points a side: the stride of the layer was used.
    assert found["aten::conv2d"].elements == 16 * 8 * 8 * 8
    assert all(trial.forward > 0 and trial.backward > 0 for trial in profile.narrow_trials)
    assert {trial.number_format for trial in profile.narrow_trials} == {"bfloat16"}


def test_a_script_without_products_is_asked_nothing(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        textwrap.dedent("""
        import torch

        weight = torch.nn.Parameter(torch.ones(8))
        optimizer = torch.optim.SGD([weight], lr=0.01)
        for step in range(10_000):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        """),
        encoding="utf-8",
    )
    assert _profile(path, batch_points=0).narrow_trials == ()


class Held:
    """A child that answers with what it is given, and notes what it was asked."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)

    def send(self, do, **fields):
        assert do == "try"
        self.asked.append([row["inputs"] for row in fields["operators"]])

    def receive(self, *_):
        return {"rows": self._answers.pop(0)}


def test_what_something_else_held_up_is_tried_again_once() -> None:
    shapes = tuple(
        OperatorShape("aten::linear", ((4, size), (2, size)), ("float32",) * 2, flops=100) for size in (8, 16)
    )
    records = tuple(
        Record("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 0.0, took, shape=number)
        for number, took in ((0, 200.0), (1, 100.0))
    )
    trace = Trace((IterationMark(0, 0.0, 300.0),), (), (), records, shapes=shapes)

    def row(number, forward, wide_us):
        return {
            "number": number,
            "forward": forward,
            "backward": forward,
            "elements": 8,
            "wide_us": wide_us,
        }

    child = Held([row(0, 0.5, 210.0), row(1, 1.4, 5_000.0)], [row(0, 0.6, 90.0)])
    first, second = narrow_trials(child, trace, ())
    assert (first.inputs, first.forward) == (shapes[0].inputs, 0.5)
    assert (second.inputs, second.forward) == (shapes[1].inputs, 0.6)
    assert child.asked == [[shapes[0].inputs, shapes[1].inputs], [shapes[1].inputs]]
    busy = Held([row(0, 1.0, 5_000.0), row(1, 1.4, 5_000.0)], [row(0, 1.2, 4_000.0)])
    assert narrow_trials(busy, trace, ()) == ()


def test_what_cannot_be_called_is_left_out() -> None:
    asked = [
        {"operator": "aten::linear", "inputs": [[4, 8], [4, 9]], "options": {}},
        {"operator": "aten::linear", "inputs": [[4, 8], [2, 8]], "options": {}},
    ]
    [row] = trials.tried(asked, "bfloat16", 10.0)
    assert (row["number"], row["elements"]) == (1, 8)


def test_no_further_one_begins_when_time_is_up() -> None:
    asked = [{"operator": "aten::linear", "inputs": [[4, 8], [2, 8]], "options": {}}]
    assert trials.tried(asked, "bfloat16", 0.0) == []


def test_random_numbers_are_not_drawn() -> None:
    import torch

    asked = [{"operator": "aten::linear", "inputs": [[4, 8], [2, 8]], "options": {}}]
    before = torch.random.get_rng_state()
    trials.tried(asked, "bfloat16", 10.0)
    assert torch.equal(before, torch.random.get_rng_state())
