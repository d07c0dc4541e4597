"""Scripts that evaluate, generate or serve: an iteration is a call of their model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import BudgetExceeded, CaptureImpossible
from skyline.report.build import profile_report, whatif_report
from skyline.report.latency import latency_remark
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.whatif.registry import whatifs

pytestmark = pytest.mark.capture

EVALUATION = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(16_000, 32), torch.randint(0, 4, (16_000,)))
loader = DataLoader(data, batch_size=16)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
right = 0
with torch.no_grad():
    for x, y in loader:
        scores = model(x)
        right += (scores.argmax(1) == y).sum().item()
print("accuracy", right / 16_000)
"""
SERVING = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).eval()

def requests():
    while True:
        yield torch.randn(1, 32)

@torch.inference_mode()
def serve():
    for request in requests():
        model(request)

serve()
"""
GENERATION = """
import torch
from torch import nn

class Encoder(nn.Linear):
    pass

class Decoder(nn.GRUCell):
    pass

encoder, decoder = Encoder(8, 16).eval(), Decoder(16, 16).eval()
with torch.inference_mode():
    for prompt in range(3000):
        state = encoder(torch.randn(4, 8))
        for token in range(6):
            state = decoder(state, state)
"""

Measure = Callable[..., Profile]


@pytest.fixture
def measure(tmp_path: Path, starter: Starter) -> Measure:
    def run(source: str, **changes: object) -> Profile:
        path = tmp_path / "serve.py"
        path.write_text(source)
        request = CaptureRequest(
            path, working_directory=tmp_path, steps=4, settle_s=0.3, batch_points=0, timeout_s=60.0
        )
        return capture(dataclasses.replace(request, **changes), progress=lambda _: None, starter=starter)

    return run


def test_an_evaluation_is_found_out_and_run_again(measure: Measure) -> None:
    profile = measure(EVALUATION)
    iteration = profile.iteration
    assert iteration is not None
    assert iteration.boundary == "model call"
    assert iteration.meaning == "one call of Sequential (serve.py line 13), without training"
    assert "inference" in iteration.styles
    assert any("Skyline ran it again with each call of its model" in note for note in profile.notes)
    assert profile.batch_size == 16
    assert profile.loop_line is not None
    assert profile.loop_line.line == 12

    analysis = analyse(profile)
    phases = analysis.baseline.phases
    assert phases[Phase.FORWARD] > 0
    assert phases[Phase.BACKWARD] == phases[Phase.OPTIMIZER] == 0
    report = profile_report(analysis)
    assert report.latency is not None
    assert report.latency.p50_ms <= report.latency.p90_ms <= (report.latency.p99_ms or float("inf"))
    assert latency_remark(report).endswith("samples/s.")
    assert "SKY603" not in [finding.code for finding in report.findings]
    assert any(line.line == 13 and line.forward_ms > 0 for line in report.lines)


def test_what_ifs_about_training_do_not_apply(measure: Measure) -> None:
    analysis = analyse(measure(EVALUATION, loop="inference"))
    report = whatif_report(analysis, None)
    assert report.verdict is not None
    assert "backward" not in report.verdict.bound
    by_name = {one.name: one for one in report.estimates}
    for name, whatif in whatifs().items():
        if getattr(whatif, "training_only", False):
            assert by_name[name].reason == "the script does not train", name
    assert by_name["num_workers"].applicable
    faults = [one.reason for one in report.estimates if "fault in Skyline" in (one.reason or "")]
    assert faults == []


def test_a_server_that_never_ends(measure: Measure) -> None:
    with pytest.raises(BudgetExceeded) as raised:
        measure(SERVING, timeout_s=3.0)
    assert "--inference" in raised.value.hint
    profile = measure(SERVING, loop="inference")
    assert profile.iteration is not None
    assert profile.iteration.boundary == "model call"
    assert len(profile.times.steps_ms) >= 100
    report = profile_report(analyse(profile))
    assert report.latency is not None
    assert report.latency.p99_ms is not None
    assert report.notes == () or "trains" not in " ".join(report.notes)


def test_a_generation_is_an_iteration_for_each_call_of_the_encoder(measure: Measure) -> None:
    profile = measure(GENERATION, loop="inference")
    assert profile.iteration is not None
    assert profile.iteration.meaning.startswith("one call of Encoder (serve.py line 14)")
    modules = {module.class_name: module.calls_per_iteration for module in profile.modules}
    assert modules["Encoder"] == pytest.approx(1, abs=0.5)


def test_a_script_without_a_model_is_told_so(measure: Measure) -> None:
    with pytest.raises(CaptureImpossible, match="without a training step"):
        measure("import torch\nprint(torch.ones(2).sum())\n")
    with pytest.raises(CaptureImpossible, match="without calling a model"):
        measure("import torch\nprint(torch.ones(2).sum())\n", loop="inference")
