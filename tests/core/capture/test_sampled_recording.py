"""Iterations with too many operators for PyTorch's profiler are recorded by samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the child's side of capture needs torch")

import torch

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import rank
from skyline.capture.child.recording import recorder as recorder_module
from skyline.capture.child.recording.line_marker import LineMarker
from skyline.capture.child.recording.operator_lines import OperatorLines
from skyline.capture.child.recording.recorder import Recorder
from skyline.capture.child.recording.sampled import Sample, rows_of
from skyline.report.build import profile_report
from skyline.trace.profile import Profile
from skyline.trace.store import load, save
from skyline.whatif.subject import SAMPLED

VERY_MANY = """
import torch

weight = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([weight], lr=1e-3)


def forward(x):
    for _ in range(32_000):
        x = x * 0.999 + 0.001
    return x


while True:
    loss = forward(weight).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.capture
def test_very_many_operators_give_headline_phases_and_lines(
    script: Callable[..., Path], run: Callable[..., Profile], tmp_path: Path
) -> None:
    path = script(VERY_MANY)
    profile = run(path, warmup=1, steps=2)

    assert profile.trace.sampled
    assert any("too many operators" in note and "with a gradient" in note for note in profile.notes)
    saved = save(profile, tmp_path)
    assert saved.stat().st_size < 1_000_000
    analysis = analyse(load(saved, path))
    report = profile_report(analysis)
    assert report.iteration_ms.value > 0
    assert report.phases.forward > 0 < report.phases.backward
    assert report.phases.total == pytest.approx(report.iteration_ms.value)
    costs = {line.line: line for line in report.lines if line.file}
    loop, backward = 10, 17
    assert costs[loop].source == "x = x * 0.999 + 0.001"
    assert costs[loop].forward_ms == pytest.approx(report.phases.forward, rel=0.2)
    assert costs[backward].backward_ms == pytest.approx(report.phases.backward, rel=0.2)
    assert sum(line.self_ms for line in report.lines) == pytest.approx(report.iteration_ms.value)

    estimates = rank(analysis)
    reasons = {one.name: one.reason for one in estimates if not one.applicable}
    assert {reasons[name] for name in ("amp", "compile", "cpu_threads", "fused_optimizer")} == {SAMPLED}
    assert reasons["num_workers"] != SAMPLED


def looks(*rows: tuple[float, str | None, int, bool]) -> list[Sample]:
    return [
        Sample(time_s, part, ("/train.py", line, "step"), ("/train.py", line, "step"), in_module)
        for time_s, part, line, in_module in rows
    ]


def test_samples_cover_the_iteration_and_name_its_phases() -> None:
    records, lines = rows_of(
        looks(
            (1.0, None, 9, False),
            (2.0, "data", 1, False),
            (3.0, None, 2, False),
            (4.0, None, 3, True),
            (5.0, "backward", 4, False),
            (6.0, "optimizer", 5, False),
            (7.0, None, 6, False),
        ),
        0.0,
        8.0,
    )
    found = [
        (lines[record["line"]]["line"], record["phase"], record["duration_us"] / 1e6) for record in records
    ]
    assert found == [
        (9, "other", 1.5),
        (1, "data", 1.0),
        (2, "forward", 1.0),
        (3, "forward", 1.0),
        (4, "backward", 1.0),
        (5, "optimizer", 1.0),
        (6, "other", 1.5),
    ]
    ends = [record["start_us"] + record["duration_us"] for record in records]
    assert [record["start_us"] for record in records] == [0.0, *ends[:-1]]


def test_an_iteration_without_a_sample_is_one_record() -> None:
    records, lines = rows_of([], 2.0, 3.0)
    assert [(record["start_us"], record["duration_us"], record["line"]) for record in records] == [
        (0.0, 1e6, -1)
    ]
    assert lines == []


def test_a_recording_with_too_many_events_is_told_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded() -> Recorder:
        recorder = Recorder("cpu", 2, LineMarker(), OperatorLines())
        recorder.start()
        x = torch.ones(8)
        for _ in range(100):
            x = x * 0.999
        recorder.mark()
        recorder.stop()
        return recorder

    monkeypatch.setattr(recorder_module, "_LARGE_BYTES", -1)
    small = recorded()
    assert not small.is_too_large
    small.drop()
    monkeypatch.setattr(recorder_module, "_MOST_EVENTS", 100)
    large = recorded()
    assert large.is_too_large
    large.drop()
