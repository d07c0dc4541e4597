"""Iterations of scripts that train in different ways: how one is cut, and how it is described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.trace.profile import Profile
from skyline.trace.record import Phase

pytestmark = pytest.mark.capture

Write = Callable[..., Path]
Run = Callable[..., Profile]

SHORT = {"steps": 3, "recorded": 1, "settle_s": 0.1}


def line_number(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_accumulated_gradients_and_steps_that_a_scaler_skips(script: Write, run: Run) -> None:
    path = script(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cpu")
        loader = DataLoader(TensorDataset(torch.randn(40_000, 8), torch.randn(40_000, 1)), batch_size=10)
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cpu", torch.bfloat16):
                loss = torch.nn.functional.mse_loss(model(x), y) / 4
            if i == 7:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if i % 4 == 3:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """
    )
    profile = run(path, **SHORT)

    fact = profile.iteration
    assert fact is not None
    assert (fact.boundary, fact.backward_passes, fact.batches) == ("optimizer step", 4, 4)
    assert f"one step of AdamW (train.py line {line_number(path, 'scaler.step')})" in fact.meaning
    assert "4 backward passes over 4 batches (gradient accumulation)" in fact.meaning
    # Skipping the second step did not make one iteration of two.
    assert "1 of the first" in fact.meaning
    assert {"gradient accumulation", "GradScaler", "automatic mixed precision (bfloat16)"} <= set(fact.styles)
    assert profile.batch.samples_per_iteration == 40


def test_a_closure_is_called_several_times_in_one_iteration(script: Write, run: Run) -> None:
    path = script(
        """
        import torch

        batch_size = 64
        x = torch.randn(batch_size, 512)
        model = torch.nn.Linear(512, 256)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=3, max_eval=3)

        def closure():
            optimizer.zero_grad()
            loss = (model(x) + torch.randn(batch_size, 256)).square().mean()
            loss.backward()
            return loss

        while True:
            optimizer.step(closure)
        """
    )
    profile = run(path, **SHORT)

    fact = profile.iteration
    assert fact is not None
    assert fact.optimizer_steps == 1
    assert fact.backward_passes >= 2
    assert "whose closure runs forward and backward" in fact.meaning
    assert "gradient accumulation" not in fact.styles
    # The same batch each time.
    assert profile.batch.samples_per_iteration == 64


def test_memory_of_a_step_with_a_closure_is_the_optimizers(script: Write, run: Run) -> None:
    path = script(
        """
        import torch

        model = torch.nn.Linear(512, 256)
        optimizer = torch.optim.Adam(model.parameters())

        def closure():
            optimizer.zero_grad()
            loss = model(torch.randn(64, 512)).square().mean()
            loss.backward()
            return loss

        while True:
            optimizer.step(closure)
        """
    )
    allocations = run(path, **SHORT).trace.allocations
    # Adam computes a square root as large as the weight; the gradient has the same size.
    of_weight = [one.phase for one in allocations if one.size_bytes == 4 * 512 * 256]
    assert Counter(of_weight) == {Phase.OPTIMIZER: 2, Phase.BACKWARD: 1}


def test_operators_of_hooks_in_the_backward_pass_have_their_own_lines(script: Write, run: Run) -> None:
    path = script(
        """
        import torch

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                larger = gradient * 4.0
                return larger / 2.0

        def hook(gradient):
            scaled = gradient * 3.0
            return scaled / 3.0

        model = torch.nn.Linear(512, 256)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        while True:
            hidden = Twice.apply(model(torch.randn(64, 512)))
            hidden.register_hook(hook)
            optimizer.zero_grad()
            hidden.square().mean().backward()
            optimizer.step()
        """
    )
    trace = run(path, **SHORT).trace
    found = {
        trace.lines[record.line].line
        for record in trace.records
        if record.phase is Phase.BACKWARD and record.name in ("aten::mul", "aten::div") and record.line >= 0
    }
    texts = ("gradient * 4.0", "larger / 2.0", "gradient * 3.0", "scaled / 3.0")
    assert found >= {line_number(path, text) for text in texts}


def test_hand_written_updates_after_several_backward_passes(script: Write, run: Run) -> None:
    path = script(
        """
        import torch

        w = torch.randn(8, 8, requires_grad=True)
        while True:
            for _ in range(3):
                (torch.randn(4, 8) @ w).square().mean().backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
                w.grad.zero_()
        """
    )
    fact = run(path, **SHORT).iteration

    assert fact is not None
    assert (fact.boundary, fact.optimizer_steps, fact.backward_passes) == ("backward pass", 0, 3)
    assert "without a torch optimizer: 3 backward passes" in fact.meaning


def test_an_evaluation_before_the_first_step_runs_twice_and_is_replayed(script: Write, run: Run) -> None:
    path = script(
        """
        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)
                self.evaluated = 0

            def forward(self, x, y=None):
                self.evaluated += not self.training
                out = self.layer(x)
                return out, None if y is None else (out - y).square().mean()

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        @torch.no_grad()
        def evaluate():
            net.eval()
            losses = [net(torch.randn(4, 8), torch.zeros(4, 8))[1].item() for _ in range(50)]
            net.train()
            return losses

        losses = evaluate()
        print("evaluated", net.evaluated, "of", len(losses), "alike", len(set(losses[1:])), flush=True)
        while True:
            optimizer.zero_grad()
            net(torch.randn(4, 8), torch.zeros(4, 8))[1].backward()
            optimizer.step()
        """
    )
    output: list[str] = []
    profile = run(path, output=output, **SHORT)

    assert "evaluated 2 of 50 alike 1" in "".join(output)
    [effect] = [effect for effect in profile.side_effects if effect.kind == "evaluation"]
    assert (effect.target, effect.outcome, effect.count) == ("Net", "replayed", 48)
    assert effect.line is not None
    assert effect.line.line == line_number(path, "losses = [net(")

    output.clear()
    profile = run(path, output=output, evaluation="run", **SHORT)

    assert "evaluated 50 of 50 alike 49" in "".join(output)
    assert not [effect for effect in profile.side_effects if effect.kind == "evaluation"]
