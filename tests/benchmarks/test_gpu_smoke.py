"""The ten-minute check of a GPU, without a GPU and on the simulated GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_without_a_gpu_the_page_says_so_and_nothing_more(tmp_path: Path) -> None:
    # An interpreter that finds none, whatever this machine has.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    command = [sys.executable, str(BENCHMARKS / "gpu_smoke.py"), "--interpreter", str(python)]
    ran = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    title, _machine, *said = (tmp_path / "gpu_smoke.md").read_text().strip().split("\n\n")
    assert title == "# Ten minutes on a GPU"
    assert said == ["No GPU could be had: nothing was measured."]


@pytest.mark.capture
@pytest.mark.long
@pytest.mark.xdist_group("gpu")
def test_on_the_simulated_gpu_it_says_that_it_is_no_measurement(
    tmp_path: Path, gpu_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SIMULATED_GPU", "kernel_us=300")
    monkeypatch.setenv("SIMULATED_GPU_CARD", str(tmp_path / "card"))
    command = [sys.executable, str(BENCHMARKS / "gpu_smoke.py"), "--interpreter", str(gpu_python), "--small"]
    command += ["--kinds", "capture", "nccl", "--steps", "60", "--minutes", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "a simulated GPU is no GPU" in refused.stderr
    ran = subprocess.run(
        [*command, "--results", str(tmp_path)], capture_output=True, text=True, check=False, timeout=230
    )
    page = (tmp_path / "gpu_smoke.md").read_text()
    assert "These are no measurements" in page
    figures = json.loads((tmp_path / "gpu_smoke.json").read_text())["figures"]
    assert figures["simulated"]
    found = {one["kind"]: one["misses"] for one in figures["kinds"]}
    assert found == {"capture": [], "nccl": []}, page
    assert ran.returncode == 0
