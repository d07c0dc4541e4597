"""Small real training scripts, and a capture that is as short as can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import skyline.capture
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.trace.profile import Profile

PLAIN = """
import torch

batch_size = 16
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def get_batch():
    x = torch.randn(batch_size, 64)
    return x, x.sum(1, keepdim=True)


for step in range(100_000):
    inputs, targets = get_batch()
    error = model(inputs) - targets
    loss = (error * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

_CHILD = Path(skyline.capture.__file__).parent / "child" / "__main__.py"
_RUN = """
import runpy, sys
runpy.run_path(sys.argv[1])["load_package"]()
from _skyline_child.sandbox.sandbox import Sandbox
script, scratch, *policy = sys.argv[2:]
Sandbox(scratch, script, *policy).install()
sys.path.insert(0, script.rpartition("/")[0])
exec(compile(open(script).read(), script, "exec"), {"__name__": "__main__", "__file__": script})
"""

Effects = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest) -> None:
    """One thread, and a start without imports; a plain start where a module has ``FRESH`` or ``PLAIN_START``."""
    if getattr(request.module, "FRESH", False) or getattr(request.module, "PLAIN_START", False):
        request.getfixturevalue("monkeypatch").setenv("OMP_NUM_THREADS", "1")
    else:
        request.getfixturevalue("brief_start")


@pytest.fixture
def no_process_left_behind() -> Iterator[None]:
    # Processes that other tests of this worker keep, such as multiprocessing's resource tracker, are not this test's.
    before = set(psutil.Process().children(recursive=True))
    yield
    deadline = time.monotonic() + 30
    while children := {
        child for child in set(psutil.Process().children(recursive=True)) - before if not _is_resident(child)
    }:
        assert time.monotonic() < deadline, children
        time.sleep(0.05)


def _is_resident(process: psutil.Process) -> bool:
    """True if it is the process that runs are forked from, which ends with the session."""
    try:
        return process.name() == "skyline-warm"
    except psutil.Error:
        return False


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    def write(source: str = PLAIN, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def starter(request: pytest.FixtureRequest, resident: WarmPool) -> Starter:
    """Runs are forked from one that has imported torch, as an editor's are; fresh where a module has ``FRESH``."""
    return start_fresh if getattr(request.module, "FRESH", False) else resident.start


@pytest.fixture
def run(starter: Starter) -> Callable[..., Profile]:
    def short(
        path: Path,
        *arguments: str,
        stages: list[Progress] | None = None,
        cancel: threading.Event | None = None,
        output: list[str] | None = None,
        **options: object,
    ) -> Profile:
        brief: dict[str, object] = {"settle_s": 0.1, "batch_points": 0, "trials": False, "timeout_s": 60.0}
        # Enough for all trials of a busy machine.
        brief["budget_s"] = 120.0
        settings = {**brief, **options}
        settings.setdefault("working_directory", path.parent)
        request = CaptureRequest(path, tuple(arguments), **settings)  # type: ignore[arg-type]
        said = stages if stages is not None else []
        heard = output if output is not None else []
        return capture(request, progress=said.append, output=heard.append, cancel=cancel, starter=starter)

    return short


@pytest.fixture
def sandboxed_command() -> list[str]:
    """Runs a script, given with its scratch folder and policy, as the capture's child would, only without torch."""
    return [sys.executable, "-c", _RUN, str(_CHILD)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "out" / "old").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "empty").mkdir()
    (folder / "out" / "old" / "best.pt").write_text("precious")
    (folder / "notes.txt").write_text("mine")
    (folder / "log.txt").write_text("old\n")
    (folder / "data" / "a.txt").write_text("a")
    (folder / "data" / "b.txt").write_text("b")
    (folder / "local.py").write_text("value = 1\n")
    return folder


@pytest.fixture
def sandboxed(folder: Path, tmp_path: Path, sandboxed_command: list[str]) -> Callable[..., Effects]:
    """Runs statements as the capture's child would, only without torch; gives what was noted."""

    def run(source: str, *policy: str, **environment: str) -> Effects:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        script = folder / "train.py"
        script.write_text("import os, pathlib, shutil\n" + textwrap.dedent(source))
        ended = subprocess.run(
            [*sandboxed_command, str(script), str(scratch), *policy],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        script.unlink()
        assert ended.returncode == 0, ended.stderr
        log = scratch / "effects.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    return run
