"""The check of a machine with a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.capture, pytest.mark.timeout(600), pytest.mark.xdist_group("gpu")]


def ran(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skyline", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "110", "TERM": "xterm", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize(("cupti", "finding"), [(1, "records kernels"), (0, "did not record a kernel")])
def test_doctor_records_one_kernel(cupti: int, finding: str, gpu_python: Path, tmp_path: Path) -> None:
    text = ran(tmp_path, "doctor", "--interpreter", str(gpu_python), SIMULATED_GPU=f"cupti={cupti}").stdout
    assert re.search(r"devices +CPU, Simulated GPU", text)
    [said] = [line for line in text.splitlines() if "GPU recording" in line]
    assert finding in said
    assert ("NVreg_RestrictProfilingToAdminUsers" in text) is (cupti == 0)
