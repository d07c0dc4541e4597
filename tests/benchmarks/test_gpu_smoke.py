"""The ten minutes on a GPU, tried without one and on the simulated one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
