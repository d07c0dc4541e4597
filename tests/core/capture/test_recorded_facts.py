"""Facts that a run reports of its settings, its modules and its calls, measured and traced without executing."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.shape_session import GpuTarget, trace_shapes
from skyline.trace.facts import CallFact, ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("recorded facts")]

SCRIPT = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return torch.relu(self.linear(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(32)
        self.second = Block(32)
        self.conv = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.25), nn.Linear(32, 1))

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=False)
        x = self.second(x)
        x = x + self.conv(x.view(-1, 2, 4, 4)).mean()
        return self.head(x)

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.ones(32)

torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
loader = torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=1, prefetch_factor=3)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Net().to(device)
teacher = nn.Linear(32, 1).to(device).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in loader:
    x = x.to(device, non_blocking=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(x).float().square().mean()
    with torch.no_grad():
        teacher(x)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    total = loss.item()
    print(loss)
"""


def _line(text: str) -> int:
    return SCRIPT.splitlines().index(text) + 1


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "train.py"
    path.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["measured", "predicted"])
def profile(request: pytest.FixtureRequest, path: Path, starter: Starter, preloaded: str) -> Profile:
    # As for each test: another environment would need another process to fork from.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", preloaded)
        patch.setenv("OMP_NUM_THREADS", "1")
        return _recorded(request.param, path, starter)


def _recorded(mode: str, path: Path, starter: Starter) -> Profile:
    asked = CaptureRequest(
        path, working_directory=path.parent, warmup=2, steps=2, settle_s=0.0, batch_points=0, timeout_s=60.0
    )
    if mode == "measured":
        return capture(asked, progress=lambda _: None, starter=starter)
    gpu = GpuTarget("Imaginary 24", 24 * 2**30, (8, 6), 80)
    return trace_shapes(asked, gpu, progress=lambda _: None, starter=starter)


def _module(profile: Profile, path: str) -> ModuleFact:
    return next(fact for fact in profile.modules if fact.path == path)


def _call(profile: Profile, name: str) -> CallFact:
    [fact] = [fact for fact in profile.calls if fact.name == name]
    return fact


def _number(line: CodeLine | None) -> int | None:
    return None if line is None else line.line


def test_settings_are_those_of_the_script(profile: Profile) -> None:
    settings = profile.settings
    assert settings is not None
    assert (settings.matmul_precision, settings.cudnn_benchmark, settings.deterministic) == (
        "high",
        True,
        False,
    )
    assert settings.autocast == "bfloat16"
    assert settings.compute_capability == ((8, 6) if profile.mode == "predicted" else None)


def test_modules_are_named_as_in_the_trace(profile: Profile) -> None:
    assert [fact.path for fact in profile.modules] == [
        "Net",
        "Net.first",
        "Net.first.linear",
        "Net.second",
        "Net.second.linear",
        "Net.conv",
        "Net.head",
        "Net.head.0",
        "Net.head.1",
        "Net.head.2",
    ]
    used = {profile.trace.modules[record.module] for record in profile.trace.records if record.module >= 0}
    assert {"Net.second.linear", "Net.head.0"} <= used


def test_a_module_knows_its_lines_and_options(profile: Profile) -> None:
    net, block = _module(profile, "Net"), _module(profile, "Net.second")
    assert _number(net.created_line) == _line("model = Net().to(device)")
    assert _number(net.call_line) == _line("        loss = model(x).float().square().mean()")
    assert _number(block.created_line) == _line("        self.second = Block(32)")
    assert _number(block.class_line) == _line("    def forward(self, x):")
    assert _number(block.call_line) == _line("        x = self.second(x)")
    assert (block.library, block.options, block.parameter_count) == (False, {"width": 32}, 0)

    linear = _module(profile, "Net.second.linear")
    assert (linear.library, linear.class_name, linear.class_line) == (True, "Linear", None)
    assert linear.options == {"in_features": 32, "out_features": 32, "bias": False}
    assert (linear.parameter_count, linear.trainable, linear.calls_per_iteration) == (1024, True, 1.0)

    inner = _module(profile, "Net.head.1")
    assert inner.options["p"] == 0.25
    assert _number(inner.created_line) == _number(_module(profile, "Net.head").created_line)
    assert inner.call_line is None, "a container of PyTorch's calls it"


def test_checkpoints_and_formats_are_told(profile: Profile) -> None:
    assert {fact.path for fact in profile.modules if fact.checkpointed} == {"Net.first", "Net.first.linear"}
    assert _module(profile, "Net.first").calls_per_iteration == 1.0, "the second time is no forward pass"
    conv = _module(profile, "Net.conv")
    assert (conv.channels_last, conv.options["kernel_size"]) == (True, (3, 3))
    assert _module(profile, "Net.second.linear").channels_last is None


def test_kept_bytes_contain_those_of_modules_inside(profile: Profile) -> None:
    kept = {fact.path: fact.kept_bytes or 0 for fact in profile.modules}
    assert kept["Net.second"] > kept["Net.second.linear"] > 0
    assert kept["Net.head"] >= kept["Net.head.0"] + kept["Net.head.1"] > 0
    assert kept["Net"] >= kept["Net.second"] + kept["Net.head"]
    assert kept["Net.first.linear"] == 0, "a checkpoint keeps nothing from inside"


def test_calls_stand_where_the_person_made_them(profile: Profile) -> None:
    expected = {
        "zero_grad": "    optimizer.zero_grad(set_to_none=False)",
        "backward": "    loss.backward()",
        "clip_grad_norm_": "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "item": "    total = loss.item()",
        "print": "    print(loss)",
        "to": "    x = x.to(device, non_blocking=True)",
        "eval forward": "        teacher(x)",
        "checkpoint": "        x = checkpoint(self.first, x, use_reentrant=False)",
    }
    calls = {name: _call(profile, name) for name in expected}
    assert {name: _number(call.line) for name, call in calls.items()} == {
        name: _line(text) for name, text in expected.items()
    }
    assert {call.per_iteration for call in calls.values()} == {1.0}
    assert calls["zero_grad"].options == {"set_to_none": False}
    assert calls["to"].options["non_blocking"] is True
    assert calls["to"].options["copies"] == (profile.mode == "predicted")
    told = calls["eval forward"].options
    assert (told["module"], told["grad_enabled"], told["training"]) == ("Linear", False, False)


def test_a_loader_tells_what_the_script_asked_for(profile: Profile) -> None:
    [loader] = profile.loaders
    assert (loader.num_workers, loader.prefetch_factor, loader.pin_memory) == (1, 3, False)
