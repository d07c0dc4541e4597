"""A known cost put into a script shows on its line, wherever it is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.line_cost import LineCost
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.trace.profile import Profile
from skyline.trace.record import Phase

Measured = Callable[[Path, float, list[str]], Profile]
# The profiles are shared: two workers would make all of them twice.
pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("billing")]

# Each place measures what it spends with the script's own clock and prints how much that is per iteration.
SPENDING = """
import statistics
import time
import torch
from torch.utils.data import DataLoader, Dataset

spent = {}

def note(place, began):
    spent.setdefault(place, []).append((time.perf_counter() - began) * 1e3)

class Points(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        began = time.perf_counter()
        time.sleep(0.004)  # dataset
        note("dataset", began)
        return torch.ones(16) * index, torch.ones(1)

def collate(rows):
    began = time.perf_counter()
    time.sleep(0.006)  # collate
    note("collate", began)
    return torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
    def forward(self, x):
        began = now = time.perf_counter()
        while now < began + 0.006: now = time.perf_counter()  # layer
        note("layer", began)
        return self.linear(x)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        began = time.perf_counter()
        time.sleep(0.006)  # function
        note("function", began)
        return gradient * 2

def of_tensor(gradient):
    began = time.perf_counter()
    time.sleep(0.006)  # tensor hook
    note("tensor hook", began)
    return gradient

def of_module(module, grad_input, grad_output):
    began = time.perf_counter()
    time.sleep(0.006)  # module hook
    note("module hook", began)

def of_parameter(parameter):
    began = time.perf_counter()
    time.sleep(0.006)  # parameter hook
    note("parameter hook", began)

class Slow(torch.optim.SGD):
    def step(self, closure=None):
        began = time.perf_counter()
        time.sleep(0.006)  # optimizer
        note("optimizer", began)
        return super().step(closure)

def on_step():
    began = time.perf_counter()
    time.sleep(0.006)  # callback
    note("callback", began)
    began = time.perf_counter()
    for number in range(400_000): number += 1  # no calls
    number = 0
    note("no calls", began)

model = torch.nn.Sequential(Layer(), torch.nn.ReLU(), torch.nn.Linear(16, 1))
model[2].register_full_backward_hook(of_module)
model[2].weight.register_post_accumulate_grad_hook(of_parameter)
optimizer = Slow(model.parameters(), lr=0.01)
steps = 0
for x, y in DataLoader(Points(), batch_size=3, collate_fn=collate):
    out = Twice.apply(model(x))
    out.register_hook(of_tensor)
    loss = ((out - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    on_step()
    steps += 1
    print({place: statistics.median(ms) * len(ms) / steps for place, ms in spent.items()})
"""


def row_of(lines: tuple[LineCost, ...], path: Path, text: str) -> LineCost:
    number = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return next(row for row in lines if row.line == number)


PLACES = {
    "dataset": Phase.DATA,
    "collate": Phase.DATA,
    "layer": Phase.FORWARD,
    "function": Phase.BACKWARD,
    "tensor hook": Phase.BACKWARD,
    "module hook": Phase.BACKWARD,
    "parameter hook": Phase.BACKWARD,
    "optimizer": Phase.OPTIMIZER,
    "callback": Phase.OTHER,
    "no calls": Phase.OTHER,
}


@dataclass(frozen=True)
class Spending:
    """The times that a run was billed for, and the times that it reports itself, in ms per iteration."""

    path: Path
    lines: tuple[LineCost, ...]
    spent: dict[str, float]

    def row(self, place: str) -> LineCost:
        return row_of(self.lines, self.path, f"# {place}")

    def is_billed(self, place: str) -> bool:
        # Generous; the benchmark of injected costs is strict.
        return 0.5 * self.spent[place] < self.row(place).self_ms < 2 * self.spent[place]


@pytest.fixture(scope="module")
def measured(starter: Starter, preloaded: str) -> Iterator[Measured]:
    """Profiles a script; what it printed is added to a list."""

    def measure(path: Path, settle_s: float, printed: list[str]) -> Profile:
        request = CaptureRequest(path, working_directory=path.parent, settle_s=settle_s, batch_points=0)
        return capture(request, progress=lambda _: None, output=printed.append, starter=starter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", preloaded)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield measure


@pytest.fixture(scope="module")
def spending(tmp_path_factory: pytest.TempPathFactory, measured: Measured) -> list[Spending]:
    """Runs of the script, until each place was billed in one of them."""
    path = tmp_path_factory.mktemp("spending") / "train.py"
    path.write_text(SPENDING, encoding="utf-8")
    # A machine that stands still for a moment is billed to any line. A wrong bill is wrong every time.
    found: list[Spending] = []
    while len(found) < 3 and not all(any(one.is_billed(place) for one in found) for place in PLACES):
        printed: list[str] = []
        profile = measured(path, 0.5, printed)
        said = [line for line in "".join(printed).splitlines() if line.startswith("{") and line.endswith("}")]
        found.append(Spending(path, analyse(profile).lines, ast.literal_eval(said[-1])))
    return found


@pytest.mark.parametrize("place", PLACES)
def test_a_known_cost_shows_on_its_line_and_in_its_phase(spending: list[Spending], place: str) -> None:
    figures = [(one.row(place).self_ms, one.spent[place]) for one in spending]
    [row, *_] = [one.row(place) for one in spending if one.is_billed(place)] or pytest.fail(str(figures))
    assert getattr(row, f"{PLACES[place].value}_ms") == pytest.approx(row.self_ms, rel=0.01)


def test_hardly_anything_is_left_unattributed(spending: list[Spending]) -> None:
    assert {one.lines[-1].file for one in spending} == {""}
    assert min(one.lines[-1].share for one in spending) < 0.02


GROUPS = """
import torch
import torch.nn.functional as F

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.last = torch.nn.Linear(8 * 8 * 8, 4)
    def forward(self, x):
        x = self.first(x)
        x = F.gelu(x)
        return self.last(x.flatten(1))

net = Net()
groups = [{"params": net.first.parameters()}, {"params": net.last.parameters(), "lr": 1e-4}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
while True:
    loss = F.cross_entropy(net(torch.randn(2, 3, 16, 16)), torch.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
"""


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory, measured: Measured) -> tuple[Path, Profile]:
    path = tmp_path_factory.mktemp("groups") / "train.py"
    path.write_text(GROUPS, encoding="utf-8")
    return path, measured(path, 0.3, [])


def test_the_step_is_told_apart_by_parameter_group(groups) -> None:
    path, profile = groups
    step = row_of(analyse(profile).lines, path, "optimizer.step()")
    modules = {part.module for part in step.parts}
    assert {"AdamW.param_groups[0]", "AdamW.param_groups[1]"} <= modules


def test_a_line_tells_modules_and_library_functions_apart(groups) -> None:
    path, profile = groups
    lines = analyse(profile).lines
    assert "Net.first" in {part.module for part in row_of(lines, path, "x = self.first(x)").parts}
    assert "gelu" in {part.callee.rpartition(".")[2] for part in row_of(lines, path, "F.gelu(x)").parts}
    loss = row_of(lines, path, "F.cross_entropy(")
    assert "torch.nn.functional.cross_entropy" in {part.callee for part in loss.parts}
    for row in lines:
        assert sum(part.self_ms for part in row.parts) <= row.self_ms * 1.001 + 1e-9


def test_arithmetic_is_counted_forward_and_backward(groups) -> None:
    path, profile = groups
    lines = analyse(profile).lines
    # 8 × 8 output values of 8 filters of 3 × 3 × 3 for two images; twice that again for both gradients.
    convolution = 2 * (2 * 8 * 8 * 8) * (3 * 3 * 3)
    assert row_of(lines, path, "x = self.first(x)").flops == 3 * convolution
    linear = 2 * 2 * (8 * 8 * 8) * 4
    assert row_of(lines, path, "return self.last").flops == 3 * linear


def test_operators_show_what_they_were_called_with(groups) -> None:
    _, profile = groups
    trace = profile.trace
    shown = {trace.shapes[record.shape] for record in trace.records if record.shape >= 0}
    convolution = next(shape for shape in shown if shape.operator == "aten::conv2d")
    assert convolution.inputs[:2] == ((2, 3, 16, 16), (8, 3, 3, 3))
    assert convolution.dtypes[0] == "float32"
    assert convolution.flops == 2 * (2 * 8 * 8 * 8) * (3 * 3 * 3)


def test_reading_a_tensor_is_billed_to_the_line_that_reads(groups) -> None:
    path, profile = groups
    assert row_of(analyse(profile).lines, path, "loss.item()").other_ms > 0


def test_memory_at_the_peak_is_told_by_line(script: Callable[..., Path], run: Callable[..., Profile]) -> None:
    path = script(
        """
        import torch
        model = torch.nn.Linear(256, 256)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        while True:
            inputs = torch.randn(512, 256)
            hidden = model(inputs)
            loss = (hidden * hidden).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    analysis = analyse(run(path))
    size = 4 * 512 * 256
    assert row_of(analysis.lines, path, "hidden = model(inputs)").peak_bytes >= size
    assert row_of(analysis.lines, path, "inputs = torch.randn").peak_bytes >= size
    assert sum(row.peak_bytes for row in analysis.lines) <= analysis.profile.peak_bytes


LOOP_IN_A_LIBRARY = """
import time
import torch

def fit(model, optimizer, batches):
    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        loss.detach().clone()
        time.sleep(0.02)
        loss.detach().clone()
"""
CALLS_IT = """
import torch
from loops import fit

model = torch.nn.Linear(64, 1)
fit(model, torch.optim.SGD(model.parameters(), lr=0.01), iter(lambda: torch.randn(16, 64), None))
"""


def test_a_pause_in_a_library_s_loop_is_not_forward(
    script: Callable[..., Path], run: Callable[..., Profile], tmp_path: Path
) -> None:
    library = tmp_path / "env" / "lib" / "python3" / "site-packages"
    library.mkdir(parents=True)
    (library / "loops.py").write_text(LOOP_IN_A_LIBRARY)
    report = analyse(run(script(f"import sys\nsys.path.append({str(library)!r})\n{CALLS_IT}")))
    phases = report.baseline.phases
    assert phases[Phase.OTHER] > 18
    assert phases[Phase.FORWARD] < 8
