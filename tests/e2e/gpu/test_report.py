"""The text of the command that people run, for a script on a GPU."""

from __future__ import annotations

import os
import re
import shutil
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


def test_kernels_stand_under_lines_beside_the_gpus_bar_and_what_bounds_the_step(
    scripts: Path, gpu_python: Path, tmp_path: Path
) -> None:
    shutil.copy(scripts / "bound.py", tmp_path)
    words = ("profile", "--no-save", "--quiet", "--interpreter", str(gpu_python), "bound.py", "device")
    profiled = ran(tmp_path, *words, SIMULATED_GPU="kernel_us=500")
    assert profiled.returncode == 0, profiled.stderr
    text = profiled.stdout
    # The rows under the dearest line, until the next line of the script's.
    [under] = re.findall(r"^ bound\.py:31 .*\n((?:   on the GPU: .*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"on the GPU: (\S+)  ([\d.]+) ms, (\d+) launches", under)
    names = [name for name, _, _ in rows]
    assert {"at::native::mm_kernel", "at::native::addmm_kernel"} <= set(names)
    # Each of its kernels takes half a millisecond.
    assert all(float(ms) == pytest.approx(0.5 * int(count), rel=0.2) for _, ms, count in rows)
    [(ms, share)] = re.findall(r"^ GPU work +([\d.]+) ms +(\d+) % +█+", text, re.MULTILINE)
    assert re.search(r"all streams added up: [^%]*backward\s+[\d.]+ ms", text)
    assert int(share) > 90
    assert float(ms) >= sum(float(one) for _, one, _ in rows) > 0
    assert re.search(r"^ Bound by.*\n GPU, computing +(9\d|100) %", text, re.MULTILINE)


@pytest.mark.parametrize(("cupti", "finding"), [(1, "records kernels"), (0, "recorded no kernel")])
def test_doctor_records_one_kernel(cupti: int, finding: str, gpu_python: Path, tmp_path: Path) -> None:
    text = ran(tmp_path, "doctor", "--interpreter", str(gpu_python), SIMULATED_GPU=f"cupti={cupti}").stdout
    assert re.search(r"devices +CPU, Simulated GPU", text)
    [said] = [line for line in text.splitlines() if "GPU recording" in line]
    assert finding in said
    assert ("NVreg_RestrictProfilingToAdminUsers" in text) is (cupti == 0)
