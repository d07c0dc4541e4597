"""A real run of the ground truth for one small model."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MODELS = sorted(path.stem for path in (BENCHMARKS / "ground_truth_models").glob("*.py"))


@pytest.mark.capture
@pytest.mark.long
def test_one_command_measures_and_scores(tmp_path):
    out = tmp_path / "out"
    command = [
        sys.executable,
        str(BENCHMARKS / "ground_truth.py"),
        "--small",
        "--models",
        "dlrm",
        "--rounds",
        "1",
    ]
    command += ["--minutes", "0.4", "--no-traces", "--out", str(out), "--results", str(tmp_path / "results")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr
    assert "Whole models, from shapes alone" in ran.stdout
    (page,) = (tmp_path / "results").glob("ground_truth_*.json")
    (model,) = json.loads(page.read_text())["figures"]["whole_models"]
    assert model["model"] == "dlrm"
    assert model["told_ms"] > 0
    assert model["took_ms"] > 0
    assert list((out / "calibration").glob("*.csv"))
    assert list((out / "models").rglob("*.json.gz"))


@pytest.mark.capture
def test_a_trace_is_recorded_without_skyline(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "kineto_steps.py"), str(tmp_path / "lstm")]
    command += [str(BENCHMARKS / "ground_truth_models" / "lstm.py"), "--small", "--batch-size", "4"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr
    with gzip.open(tmp_path / "lstm.json.gz") as file:
        events = json.load(file)["traceEvents"]
    steps = {event["name"] for event in events if str(event.get("name", "")).startswith("ProfilerStep")}
    assert len(steps) == 3
    assert (tmp_path / "lstm.json.gz").stat().st_size < 2 << 20


def test_there_are_six_models():
    assert MODELS == ["bert", "dlrm", "gpt2", "lstm", "resnet50", "unet"]
