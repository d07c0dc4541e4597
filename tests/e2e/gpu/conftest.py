"""The whole product on a GPU that is simulated: ``tests/simulated_gpu``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.trace.profile import Profile

TESTS = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "scripts"
EXAMPLES = TESTS.parent / "examples"
VARIABLES = (("OMP_NUM_THREADS", "1"),)


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Ran:
    """Output and exit status of a script that ran by itself."""

    out: str
    err: str
    code: int

    def figures(self, name: str) -> list[float]:
        """The numbers behind this name, in the order in which they were printed."""
        found = [line.partition(name)[2] for line in self.out.splitlines() if line.startswith(name)]
        return [float(value) for value in found]


@pytest.fixture
def run_alone(gpu_python: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a script, or Python text, on the simulated GPU without Skyline."""

    def run(script: Path | str, *arguments: str, **gpu: float) -> Ran:
        command = ["-c", script] if isinstance(script, str) else [str(script)]
        ended = subprocess.run(
            [str(gpu_python), *command, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", "SIMULATED_GPU": settings(gpu)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(ended.stdout, ended.stderr, ended.returncode)

    return run


def settings(gpu: dict[str, float]) -> str:
    """The settings of the simulated GPU, in the form of its variable."""
    return ",".join(f"{name}={value}" for name, value in gpu.items())


@pytest.fixture(scope="session")
def starters() -> Iterator[WarmPool]:
    """Runs are forked from one process that has imported torch, as the language server does it."""
    warm_pool = WarmPool(most=1)
    yield warm_pool
    warm_pool.close()


@pytest.fixture(autouse=True)
def brief(brief_start: None) -> None:
    """Every interpreter imports and ends as fast as can be."""


@pytest.fixture
def requested(gpu_python: Path, tmp_path: Path) -> Callable[..., CaptureRequest]:
    """Asks for runs of a script on the simulated GPU."""

    def request(
        script: Path, *arguments: str, options: dict[str, object] | None = None, **gpu: float
    ) -> CaptureRequest:
        return CaptureRequest(
            script,
            arguments,
            **{
                "interpreter": str(gpu_python),
                "working_directory": tmp_path,
                "settle_s": 0.2,
                "steps": 4,
                "batch_points": 0,
                "timeout_s": 60.0,
                "variables": (("SIMULATED_GPU", settings(gpu)), *VARIABLES),
                **(options or {}),
            },  # type: ignore[arg-type]
        )

    return request


@pytest.fixture
def profiled(requested: Callable[..., CaptureRequest], starters: WarmPool) -> Callable[..., Profile]:
    """Profiles a script on the simulated GPU."""

    def profile(
        script: Path,
        *arguments: str,
        options: dict[str, object] | None = None,
        output: list[str] | None = None,
        **gpu: float,
    ) -> Profile:
        request = requested(script, *arguments, options=options, **gpu)
        said = output if output is not None else []
        return capture(request, progress=lambda _: None, output=said.append, starter=starters.start)

    return profile


@pytest.fixture
def misses() -> Callable[[Profile], list[str]]:
    """The requirements that a recording does not meet, as the smoke run on a real GPU checks them."""
    check = _module("recording_check", TESTS.parent / "benchmarks" / "recording_check.py")
    return lambda profile: check.RecordingCheck.of(profile).misses()


@pytest.fixture
def scripts() -> Path:
    return SCRIPTS


@pytest.fixture
def examples() -> Path:
    return EXAMPLES
