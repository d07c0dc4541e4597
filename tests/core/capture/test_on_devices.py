"""Whole runs, of scripts to which devices matter."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="captures need torch")

from skyline.capture import batch_trials, session, shape_session
from skyline.capture.process import Starter
from skyline.capture.recording import ChildRecording
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.shape_session import GpuTarget, trace_shapes
from skyline.errors import ScriptFailed
from skyline.trace import trial
from skyline.trace.facts import DeviceMemoryFact
from skyline.trace.profile import Profile

STATE = """
import hashlib, random, sys
import torch
from torch import nn

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
random.seed(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1)).to(device)


class Sampled(nn.Module):
    # Draws numbers in evaluation, too, and counts how often it was asked.
    def __init__(self):
        super().__init__()
        self.register_buffer("asked", torch.zeros(()))

    def forward(self, x):
        self.asked += 1
        return x + torch.rand_like(x).mean() + random.random()


sampled = Sampled().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=3)


def state():
    digest = hashlib.sha256()
    tensors = [*model.state_dict().values(), *sampled.state_dict().values(), torch.get_rng_state()]
    tensors += [value for kept in optimizer.state.values() for value in kept.values()]
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    digest.update(repr((random.getstate(), scaler.state_dict(), schedule.state_dict())).encode())
    return digest.hexdigest()


for step in range(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000):
    if step in (1, 2):
        sampled.eval(), model.eval()
        with torch.no_grad():
            for _ in range(6):
                model(sampled(torch.zeros(4, 8, device=device)))
        sampled.train(), model.train()
    loss = model(torch.randn(8, 8).to(device)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    if step in (4, 30):
        print("state", step, state(), flush=True)
"""
"""Says what its state is after some iterations, on the device that is its first argument."""


def states(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("state")]


def test_the_state_of_a_script_is_what_it_is_without_being_profiled(
    script: Callable[..., Path], run: Callable[..., Profile]
):
    path = script(STATE)
    alone = subprocess.run(
        [sys.executable, str(path), "cpu", "31"], capture_output=True, text=True, check=True, cwd=path.parent
    )
    heard: list[str] = []
    run(path, "cpu", output=heard, warmup=3)
    assert len(states(alone.stdout)) == 2
    assert states("".join(heard)) == states(alone.stdout)


BOOT = """
import os, pathlib, time
if os.environ.get("MARKER"):
    import torch

    def asked():
        pathlib.Path(os.environ["MARKER"]).touch()
        return False

    class Graph:
        def capture_begin(self):
            pass

        def capture_end(self):
            pass

        def replay(self):
            time.sleep(0.002)

    torch.cuda.is_available = asked
    torch.cuda.CUDAGraph = Graph
"""
CAPTURED = """
import os, pathlib
import torch

# Asked before this, forked processes could not use the GPU.
assert not pathlib.Path(os.environ["MARKER"]).exists()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
graph = torch.cuda.CUDAGraph()


def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


step()
graph.capture_begin()
step()
graph.capture_end()
for _ in range(600):
    graph.replay()
"""


def test_a_step_that_was_captured_once_is_an_iteration_each_time_that_it_is_replayed(
    script: Callable[..., Path], run: Callable[..., Profile], tmp_path: Path
):
    boot = tmp_path / "boot"
    boot.mkdir()
    (boot / "sitecustomize.py").write_text(textwrap.dedent(BOOT))
    marker = tmp_path / "asked"
    folders = os.pathsep.join(filter(None, [str(boot), os.environ.get("PYTHONPATH", "")]))
    variables = (("PYTHONPATH", folders), ("MARKER", str(marker)))
    profile = run(script(CAPTURED), variables=variables)
    assert len(profile.times.steps_ms) >= 8
    assert min(profile.times.steps_ms) >= 2.0, "replays, not captures"
    assert profile.iteration is not None
    assert (profile.iteration.optimizer_steps, profile.iteration.backward_passes) == (1, 1)
    assert not marker.exists(), "nor was it asked later"


BATCHES = """
import torch

batch_size = 256
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    error = model(torch.randn(batch_size, 64))
    loss = (error * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def on_a_card(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Make runs believe that they compute on a card. Its free memory is given in peaks of tensors of an iteration.

    ``beside`` is free while the run keeps what it has; ``alone``, in multiples of the batch, is how many samples a run
    has room for that has the card to itself.
    """

    def install(beside: float, alone: float) -> None:
        told = session.record

        def on_a_card(*args: Any, **options: Any) -> ChildRecording:
            recording = told(*args, **options)
            fixed, peak = recording.memory.total_bytes, recording.peak_bytes
            room = fixed + alone * (peak - fixed)
            free = round(room / 0.95) - peak + round(beside * fixed)
            memory = DeviceMemoryFact(10 * peak, free, peak, peak, 0, 0)
            return replace(recording, device_memory=memory)

        monkeypatch.setattr(session, "record", on_a_card)

    return install


def test_batch_sizes_take_turns_on_a_device_that_does_not_hold_them_all(
    script: Callable[..., Path], run: Callable[..., Profile], on_a_card: Callable[[float, float], None]
):
    """A device that holds twice the batch by itself, and a quarter while the run at rest is there."""
    on_a_card(0.5, 2)
    stages: list[Progress] = []
    profile = run(script(BATCHES), batch_points=2, stages=stages, trials=False, budget_s=0.5)
    said = [stage.message for stage in stages]
    assert "measuring batch size 64" in said
    assert "measuring batch size 512" not in said
    smaller, larger = trial.batch_trials(profile.trials).values()
    assert (smaller.choices.batch_size, larger.choices.batch_size) == (64, 512)
    assert len(smaller.ratios) == len(larger.ratios) == 2, "the least: no time is left"
    assert smaller.peak_bytes is not None
    assert larger.peak_bytes is not None
    assert smaller.peak_bytes < profile.peak_bytes < larger.peak_bytes


@pytest.mark.parametrize(("multiple", "sizes"), [(2.2, "512, 64"), (1.5, "64, 128")])
def test_batch_sizes_are_bounded_by_the_device_and_not_by_the_host(
    multiple: float,
    sizes: str,
    script: Callable[..., Path],
    run: Callable[..., Profile],
    on_a_card: Callable[[float, float], None],
    monkeypatch: pytest.MonkeyPatch,
):
    """A host with hardly any free memory, and a card with room for this multiple of the batch."""
    on_a_card(0.0, multiple)
    scarce = SimpleNamespace(available=1 << 10)
    monkeypatch.setattr(batch_trials, "psutil", SimpleNamespace(virtual_memory=lambda: scarce))
    stages: list[Progress] = []
    run(script(BATCHES), batch_points=2, stages=stages, trials=False, budget_s=0.5)
    assert f"starting at batch sizes {sizes}" in [stage.message for stage in stages]


VISIBLE = """
import os
import torch

if os.environ.get("CUDA_VISIBLE_DEVICES") == "" and {needs}:
    raise RuntimeError("No CUDA GPUs are available")
print("visible:", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    optimizer.step()
"""
TARGET = GpuTarget("Example", 8 << 30, (9, 0), 10)


@pytest.fixture
def traced(starter: Starter) -> Callable[..., str]:
    """Traces a script for another GPU; gives what it printed."""

    def trace(path: Path, *notes: str, **variables: str) -> str:
        request = CaptureRequest(
            path, working_directory=path.parent, timeout_s=60.0, variables=tuple(variables.items())
        )
        profile = trace_shapes(request, TARGET, progress=lambda _: None, starter=starter)
        assert all(any(note in said for said in profile.notes) for note in notes)
        return profile.output_tail

    return trace


def test_the_gpus_that_are_here_are_hidden_from_a_script_that_is_to_see_another(
    script: Callable[..., Path], traced: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    path = script(VISIBLE.format(needs=False))
    assert "visible: \n" in traced(path) + "\n"
    assert "visible: \n" in traced(path, CUDA_VISIBLE_DEVICES="3") + "\n"


def test_a_script_that_cannot_do_without_them_sees_them(
    script: Callable[..., Path], traced: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    path = script(VISIBLE.format(needs=True))
    monkeypatch.setattr(shape_session, "_HARDWARE", (path,))
    assert "visible: 3" in traced(path, "that GPU was visible to it")
    monkeypatch.setattr(shape_session, "_HARDWARE", (path / "none",))
    with pytest.raises(ScriptFailed, match="No CUDA GPUs"):
        traced(path)
