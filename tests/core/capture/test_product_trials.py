"""Products tried in bfloat16 and on other threads in the process that ran the script."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from skyline.capture import config_trials, layer_trials
from skyline.capture.child import trials
from skyline.capture.process import Starter
from skyline.capture.product_trials import _ROUNDS, product_trials
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.trial_budget import TrialBudget
from skyline.rewrite.catalogue.kronecker import snippet
from skyline.trace.facts import Device, Environment, ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.trace.trial import PRODUCTS

pytestmark = pytest.mark.capture

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
head = nn.Linear(8, 4)
mixer = nn.Linear(256, 128)
optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters(), *mixer.parameters()], lr=0.01)
print("drawn", torch.rand(1).item())
for step in range(10_000):
    images = torch.ones(16, 3, 16, 16)
    features = conv(images).mean((2, 3))
    attended = F.scaled_dot_product_attention(*[features.view(1, 2, 8, 8)] * 3)
    loss = (head(features) @ torch.ones(4, 2)).square().mean() + attended.sum()
    loss = loss + mixer(torch.ones(2048, 256)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _profile(path: Path, starter: Starter) -> Profile:
    asked = CaptureRequest(
        path,
        working_directory=path.parent,
        warmup=2,
        steps=2,
        settle_s=0.0,
        timeout_s=60.0,
        batch_points=0,
        trials=True,
    )
    return capture(asked, progress=lambda _: None, starter=starter)


def test_the_products_of_a_script_of_long_iterations_are_tried_with_their_sizes_and_strides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starter: Starter
) -> None:
    # As if its iterations took too long for some of them to be tried.
    monkeypatch.setattr(config_trials, "_PLANS", ())
    # Other tests may compute meanwhile.
    monkeypatch.setattr(layer_trials, "_SECONDS", 60.0)
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    profile = _profile(path, starter)
    if profile.environment.device.kind != "cpu":
        pytest.skip("only products of a CPU are tried")
    found = {trial.operator: trial for trial in profile.product_trials}
    assert {
        "aten::conv2d",
        "aten::linear",
        "aten::matmul",
        "aten::scaled_dot_product_attention",
    } <= set(found)
    assert set(found) <= set(PRODUCTS)
    # Half of 16 points a side: the stride of the layer was used.
    assert found["aten::conv2d"].elements == 16 * 8 * 8 * 8
    environment = profile.environment
    others = 1 if environment.intraop_threads > 1 else environment.cpu_count
    for trial in profile.product_trials:
        assert (trial.threads, trial.other_threads) == (environment.intraop_threads, others)
        for times in (trial.forward, trial.backward):
            assert times.wide_us > 0
            assert times.narrow_us > 0
            assert (times.wide_otherwise_us > 0) == (trial.threads != trial.other_threads)
    assert {trial.number_format for trial in profile.product_trials} == {"bfloat16"}
    assert {(trial.inner, trial.columns) for trial in profile.split_trials} == {(256, 128)}
    elsewhere = {None} if others == environment.intraop_threads else {None, others}
    assert {one.threads for one in profile.split_trials} == elsewhere
    for split in profile.split_trials:
        assert split.rank < 128
        assert min(split.forward_us[1], split.backward_us[1]) > 0
        assert (split.forward_us[0] > 0) is (split.threads is None)
    tried = {(trial.rows, trial.inner, trial.columns, trial.blocks) for trial in profile.kronecker_trials}
    assert {(2048, 256, 128, 4), (2048, 256, 128, 2), (16, 8, 4, 2)} <= tried
    assert {one.threads for one in profile.kronecker_trials} == elsewhere
    for one in profile.kronecker_trials:
        assert min(one.forward_us[1], one.backward_us[1]) > 0
        assert (one.forward_us[0] > 0) is (one.threads is None)


def test_a_script_without_products_is_asked_nothing(tmp_path: Path, starter: Starter) -> None:
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
    profile = _profile(path, starter)
    assert profile.product_trials == ()
    assert {trial.choices.number_format for trial in profile.trials} <= {""}


MACHINE = Environment(Device("a CPU", "cpu"), "3.11", "2.13", "linux", 4, 4, 8 << 30)


TURNS = 2 * (2 + 2 * _ROUNDS + 1)
"""Of a product: on two numbers of threads, in two formats, with those before the rounds and the closing one."""


class Held:
    """A child that takes ``us`` for a product in float32, by its second size and the number of the attempt."""

    def __init__(self, us):
        self.us = us
        self.asked = []

    def send(self, do, **fields):
        assert do == "try"
        assert fields["threads"] in (1, MACHINE.intraop_threads)
        self.asked.append(fields["product"]["inputs"][0][1])
        self.number_format = fields["number_format"]

    def receive(self, *_):
        size = self.asked[-1]
        narrowing = 0.5 if self.number_format == "bfloat16" else 1.0
        ms = narrowing * self.us[size][(self.asked.count(size) - 1) // TURNS] / 1e3
        row = {"step_ms": 2 * ms, "data_ms": 0.0, "backward_ms": ms, "optimizer_ms": 0.0}
        return {"rows": [{**row, "fetches": 0, "backward_calls": 1}], "elements": 8}


def test_what_something_else_held_up_is_tried_again_once() -> None:
    shapes = tuple(
        OperatorShape("aten::linear", ((4, size), (2, size)), ("float32",) * 2, flops=100) for size in (8, 16)
    )
    records = tuple(
        Record("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 0.0, took, shape=number)
        for number, took in ((0, 200.0), (1, 100.0))
    )
    trace = Trace((IterationMark(0, 0.0, 300.0),), (), (), records, shapes=shapes)

    child = Held({8: (210.0,), 16: (5_000.0, 90.0)})
    first, second = product_trials(child, trace, (), MACHINE, TrialBudget(60.0))
    assert (first.inputs, first.forward.narrowing) == (shapes[0].inputs, 0.5)
    assert (second.inputs, second.forward.wide_us) == (shapes[1].inputs, pytest.approx(90.0))
    assert (child.asked.count(8), child.asked.count(16)) == (TURNS, 2 * TURNS)
    busy = Held({8: (5_000.0, 4_000.0), 16: (5_000.0, 4_000.0)})
    assert product_trials(busy, trace, (), MACHINE, TrialBudget(60.0)) == ()
    spent = Held({8: (200.0,), 16: (100.0,)})
    assert product_trials(spent, trace, (), MACHINE, TrialBudget(0.0)) == ()
    assert spent.asked == [], "no product is started that would end too late"


CALL_US = 20.0


class Tried:
    """A child whose products take a call, and as many µs as 1,000 operations."""

    def __init__(self, threads=4):
        self.asked = []
        self.threads = threads

    def send(self, do, **fields):
        assert (do, fields["threads"], fields["number_format"]) == ("try", self.threads, "float32")
        self.asked.append(fields["product"]["inputs"])

    def receive(self, *_):
        (rows, inner), (columns, _), *_ = self.asked[-1]
        forward_ms = (CALL_US + rows * inner * columns / 1e3 - 1e-3) / 1e3
        row = {"step_ms": 3 * forward_ms, "data_ms": 0.0, "backward_ms": 2 * forward_ms, "optimizer_ms": 0.0}
        return {"rows": [{**row, "fetches": 0, "backward_calls": 1}], "elements": rows * columns}


def test_layers_with_most_of_the_time_are_tried_whole_and_at_two_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = ((64, 32), (8, 4), (512, 32))
    shapes = tuple(
        OperatorShape("aten::linear", ((2, 100, inner), (columns, inner)), ("float32",) * 2)
        for inner, columns in sizes
    )
    took_us = 400.0, 90.0, 40e3
    records = tuple(
        Record("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 0.0, us, shape=number)
        for number, us in enumerate(took_us)
    )
    trace = Trace((IterationMark(0, 0.0, 1e5),), (), (), records, shapes=shapes)
    child = Tried()
    found = layer_trials.split_trials(child, trace, 4, TrialBudget(60.0))
    # A quarter of the rows of the slowest one; ranks are a quarter and a sixteenth of the narrowest side, from 4.
    assert [(one.rows, one.inner, one.columns, one.rank) for one in found] == [
        (50, 512, 32, 8),
        (200, 64, 32, 8),
    ]
    first = found[0]
    assert first.forward_us == pytest.approx((50 * 512 * 32 / 1e3, 50 * 8 * (512 + 32) / 1e3), rel=1e-4)
    assert first.backward_us == pytest.approx(tuple(2 * us for us in first.forward_us))
    monkeypatch.setattr(layer_trials, "_MOST_BYTES", 4 * 200 * (64 + 32) + 4 * 64 * 32)
    small = Tried()
    assert {one.inner for one in layer_trials.split_trials(small, trace, 4, TrialBudget(60.0))} == {64}
    spent = Tried()
    assert layer_trials.split_trials(spent, trace, 4, TrialBudget(0.0)) == ()
    assert spent.asked == []


LINEAR = {"operator": "aten::linear", "inputs": [[4, 8], [2, 8]], "options": {}}


def test_what_cannot_be_called_gives_no_row() -> None:
    products = trials.Products()
    threads = torch.get_num_threads()
    assert products.turn({**LINEAR, "inputs": [[4, 8], [4, 9]]}, threads, "bfloat16") == (None, 0)
    row, elements = products.turn(LINEAR, threads, "bfloat16")
    assert elements == 8
    assert row["step_ms"] > row["backward_ms"] > 0


def test_random_numbers_are_not_drawn() -> None:
    before = torch.random.get_rng_state()
    trials.Products().turn(LINEAR, 1, "bfloat16")
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("inputs", [[[4, 8], [2, 8]], [[4, 8], [2, 9]]])
def test_the_script_has_its_threads_back(inputs: list[list[int]]) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        trials.Products().turn({**LINEAR, "inputs": inputs}, 1, "float32")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_weights_of_lstms_are_tried_as_they_are_made() -> None:
    options = {"input_size": 6, "hidden_size": 8, "num_layers": 2, "bidirectional": False, "proj_size": 0}
    module = ModuleFact("Net.lstm", "LSTM", True, 10**4, True, options)
    other = replace(module, library=False)
    trace = Trace((IterationMark(0, 0.0, 1e5),), (), (), ())
    child = Tried()
    found = layer_trials.layer_trials(child, trace, (module, other), 4, TrialBudget(60.0))
    assert found.split == ()
    assert [(one.rows, one.columns, one.inner, one.blocks) for one in found.kronecker] == [
        (0, 32, 8, 4),
        (0, 32, 8, 2),
        (0, 32, 6, 2),
    ]
    assert all(one.forward_us[0] == 0 < one.forward_us[1] for one in found.kronecker)
    assert child.asked[0] == ((4, 4), (8, 2))
    twice = layer_trials.with_threads(Tried(1), found, 1, TrialBudget(60.0))
    assert twice.kronecker == (*found.kronecker, *(replace(one, threads=1) for one in found.kronecker))


def test_the_tried_layer_is_the_one_that_is_written() -> None:
    torch.manual_seed(1)
    names = {"torch": torch, "nn": torch.nn, "inputs": 12, "outputs": 8}
    exec(snippet("4"), names)
    layer, given = names["layer"], torch.randn(5, 12)
    tried = trials._CALLS["kronecker linear"](given, layer.factors.first, layer.factors.second, layer.bias)
    assert torch.equal(tried, layer(given))
    assert torch.allclose(tried, given @ layer.factors().T + layer.bias, atol=1e-6)
    assert torch.equal(
        trials._CALLS["kronecker weight"](layer.factors.first, layer.factors.second), layer.factors()
    )
