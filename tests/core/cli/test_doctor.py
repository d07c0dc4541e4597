from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.interpreter import has_torch, module_file
from skyline.cli.doctor import owners
from skyline.errors import UsageError

# An interpreter without torch is made once.
pytestmark = pytest.mark.xdist_group("doctor")

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without torch."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


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


def test_nothing_is_imported_from_the_working_folder(
    skyline: Run, bare_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "contextlib", "json", "importlib", "types"):
        package = tmp_path / "work" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path / "work")
    assert not has_torch(str(bare_python))
    assert "FAIL  torch" in skyline("doctor", "--interpreter", str(bare_python)).out
    with pytest.raises(UsageError, match="no module"):
        module_file("absent_module", Path.cwd(), str(bare_python))
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == []


def test_an_interpreter_is_asked_for_torch_once_until_it_is_gone(tmp_path: Path) -> None:
    torch, asked, python = tmp_path / "torch.py", tmp_path / "asked", tmp_path / "python"
    torch.touch()
    python.write_text(
        f'#!/bin/sh\necho >> "{asked}"\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    assert has_torch(str(python))
    assert has_torch(str(python))
    assert asked.read_text() == "\n"
    torch.unlink()
    assert not has_torch(str(python))


def test_the_kernels_protection_is_told(skyline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLINE_LANDLOCK", "0")
    checks = json.loads(skyline("doctor", "--json", "-", "--interpreter", "/no/such/python").out)["checks"]
    [files] = [check for check in checks if check["name"] == "files"]
    assert files["verdict"] == "warning"
    assert "interception only: SKYLINE_LANDLOCK is 0" in files["finding"]


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


def test_a_file_of_ones_own_is_counted_or_named_with_its_fault(
    skyline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_python: Path
) -> None:
    path = tmp_path / "mine.toml"
    monkeypatch.setenv("SKYLINE_DEVICES", str(path))
    path.write_text('[[gpu]]\nname = "Lab"\nlike = "t4"\n[[price]]\ngpu = "lab"\nusd_per_hour = 1\n')
    assert f"1 GPU and 1 price in {path}" in skyline("doctor", "--interpreter", str(bare_python)).out
    path.write_text('[[gpu]]\nname = "Lab"\nlike = "no such"\n')
    ran = skyline("doctor", "--interpreter", str(bare_python))
    assert f'note  your own GPUs  {path}: gpu "Lab": like: no GPU called' in ran.out


TORCH_WITH_A_GPU = """
import sys
from types import ModuleType, SimpleNamespace

__version__ = "2.7.0+cu126"
version = SimpleNamespace(cuda="12.6")
get_num_threads = lambda: 2
_C = SimpleNamespace()
gpu = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 1,
    get_device_name=lambda index: "Test GPU",
    synchronize=lambda: None,
)
backends = SimpleNamespace(
    cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX2"),
    mps=SimpleNamespace(is_available=lambda: KIND == "mps"),
)
globals()[KIND] = gpu
autograd = SimpleNamespace(DeviceType=SimpleNamespace(CPU=0))
zeros = lambda count, device: SimpleNamespace(add_=lambda number: None)


class Recording:
    def __init__(self, activities):
        pass

    def __enter__(self):
        events = [SimpleNamespace(device_type=lambda kind=kind: kind) for kind in EVENTS]
        results = SimpleNamespace(events=lambda: events)
        self.profiler = SimpleNamespace(kineto_results=results)
        return self

    def __exit__(self, *error):
        print(SAID, file=sys.stderr)


profiler = ModuleType("torch.profiler")
profiler.ProfilerActivity = SimpleNamespace(CPU=0, CUDA=1, XPU=2)
profiler.profile = Recording
sys.modules["torch.profiler"] = profiler
"""


@pytest.mark.parametrize(
    ("kind", "events", "said", "verdict", "remedy"),
    [
        ("cuda", (0, 1), "", "ok", ""),
        ("xpu", (0, 2), "", "ok", ""),
        ("xpu", (0,), "", "warning", "intel-pti"),
        ("mps", (0,), "", "warning", "lines and phases are those of the host"),
        ("cuda", (0,), "", "warning", "NVreg_RestrictProfilingToAdminUsers=0"),
        (
            "cuda",
            (0, 0),
            "WARNING: CUPTI initialization failed - CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
            "warning",
            "capability SYS_ADMIN",
        ),
        (
            "cuda",
            (0,),
            "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            "warning",
            "Another profiler uses the GPU",
        ),
    ],
)
def test_one_kernel_is_recorded_where_there_is_a_gpu(
    skyline: Run, bare_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    kind: str, events: tuple[int, ...], said: str, verdict: str, remedy: str,
) -> None:  # fmt: skip
    package = tmp_path / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"KIND, EVENTS, SAID = {kind!r}, {events!r}, {said!r}\n{TORCH_WITH_A_GPU}"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    ran = skyline("doctor", "--interpreter", str(bare_python), "--json", "-")
    checks = {check["name"]: check for check in json.loads(ran.out)["checks"]}
    assert checks["devices"]["finding"] == f"CPU, {'Apple GPU' if kind == 'mps' else 'Test GPU'}"
    found = checks["GPU recording"]
    assert found["verdict"] == verdict
    assert remedy in found["remedy"]
    assert said in found["finding"]


def test_the_hosts_that_a_run_may_reach(skyline: Run, bare_python: Path) -> None:
    ran = skyline("doctor", "--interpreter", str(bare_python))
    assert "runs that you start can reach every host; runs after a save: this machine only" in ran.out
