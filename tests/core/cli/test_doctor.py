from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.cli.doctor import owners

Run = Callable[..., Any]


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter without torch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return tmp_path / "bare" / "bin" / "python"


def test_another_owner_of_the_name_is_a_failure() -> None:
    assert owners(["skyline-profiler"]).verdict == "ok"
    assert owners([]).verdict == "ok"
    found = owners(["skyline-profiler", "skyline-cli"])
    assert found.verdict == "failed"
    assert "pip uninstall skyline-cli" in found.remedy


def test_no_torch_is_a_failure_with_a_remedy(skyline: Run, bare_python: Path) -> None:
    ran = skyline("doctor", "--interpreter", str(bare_python))
    assert ran.code == 3
    assert "FAIL  torch" in ran.out
    assert f"{bare_python} -m pip install torch" in ran.out


def test_no_interpreter_is_a_failure(skyline: Run) -> None:
    ran = skyline("doctor", "--interpreter", "/no/such/python")
    assert ran.code == 3
    assert "/no/such/python" in ran.out


@pytest.mark.capture
def test_what_works_here(skyline: Run) -> None:
    pytest.importorskip("torch")
    ran = skyline("doctor", "--json", "-", "--interpreter", sys.executable)
    document = json.loads(ran.out)
    assert document["schema"] == "skyline.doctor/1"
    checks = {check["name"]: check for check in document["checks"]}
    assert checks["torch"]["verdict"] == "ok"
    assert checks["front ends"]["verdict"] == "ok"
    assert ran.code == (3 if any(check["verdict"] == "failed" for check in checks.values()) else 0)
