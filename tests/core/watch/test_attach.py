"""Terminals attached to real runs under ``skyline watch``, and a watcher that is killed and replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.capture, pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")]

SCRIPT = """
import os, sys, time
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
iterations, done = int(sys.argv[1]), 0
with open(sys.argv[2], "w") as losses:
    while done < iterations and not os.path.exists("enough"):
        optimizer.zero_grad()
        loss = (model(torch.randn(32, 8)) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.write(loss.item().hex() + "\\n")
        losses.flush()
        done += 1
        time.sleep(float(sys.argv[3]))
"""
SKYLINE = (sys.executable, "-m", "skyline", "watch")
WITHIN_S = 90.0


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No run but that of the test is known."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))


def until(holds: Callable[[], Any]) -> Any:
    """The first value that counts as true."""
    ends = time.monotonic() + WITHIN_S
    while time.monotonic() < ends:
        if found := holds():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], psutil.Process]]]:
    """Starts the script under watch; gives the watcher, and the process of the run after some iterations."""
    begun: list[psutil.Process] = []

    def watched(*options: str) -> tuple[subprocess.Popen[str], psutil.Process]:
        (tmp_path / "train.py").write_text(SCRIPT)
        usual = ("--interpreter", sys.executable, "--every", "0.05", "--overhead", "0.1")
        command = [
            *SKYLINE,
            *usual,
            "--history",
            "h.jsonl",
            *options,
            "train.py",
            "1000000",
            "losses",
            "0.005",
        ]
        with (tmp_path / "watcher.txt").open("w") as said:
            watcher = subprocess.Popen(command, cwd=tmp_path, stderr=said, text=True)
        until(lambda: lines(tmp_path / "losses") > 40)
        (run,) = psutil.Process(watcher.pid).children()
        begun.extend((run, psutil.Process(watcher.pid)))
        return watcher, run

    yield watched
    for one in begun:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            pass


@pytest.fixture
def attach(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*SKYLINE, "--attach", *words]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WITHIN_S
        )

    return run


def history(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in (folder / "h.jsonl").read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def is_paused(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def test_attached_terminals_follow_and_ask(start: Any, attach: Any, tmp_path: Path) -> None:
    watcher, run = start("--allow", "pause", "--allow", "profile", "--allow", "stop")
    shown = [
        subprocess.Popen([*SKYLINE, "--attach"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for one in shown:
        assert one.stderr is not None
        assert f"train-{run.pid}: " in one.stderr.readline()
    shown[1].kill()
    shown[1].communicate()
    asked = attach("train.py", "--ask", "pause")
    assert asked.stdout == f"train-{run.pid}: paused because a client asked\n", asked.stderr
    until(lambda: is_paused(run))
    assert attach("--ask", "continue").returncode == 0
    at = lines(tmp_path / "losses")
    until(lambda: lines(tmp_path / "losses") > at + 5)
    assert attach("--ask", "profile").returncode == 0
    until(lambda: list(tmp_path.glob("h-asked-*.trace.json")))
    until(lambda: any("profile of this moment" in str(one.get("message")) for one in history(tmp_path)))
    assert attach("--ask", "stop").returncode == 0
    # As after Ctrl+C.
    assert watcher.wait(WITHIN_S) in {-signal.SIGINT, 130}
    assert list(tmp_path.glob("h-stopped-*.pt"))
    _, told = shown[0].communicate(timeout=WITHIN_S)
    assert shown[0].returncode == 0
    assert "paused because a client asked" in told
    assert "profile of this moment" in told
    assert "has ended with" in told
    nobody = attach()
    assert nobody.returncode == 2
    assert "No run is active under skyline watch" in nobody.stderr
    assert "skyline watch train.py" in nobody.stderr


def test_the_keys_of_an_attached_terminal(start: Any, tmp_path: Path) -> None:
    import pty

    watcher, run = start("--allow", "pause")
    reader, terminal = pty.openpty()
    # In a new session the first terminal that is opened becomes its own.
    own = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    shown = subprocess.Popen(
        [sys.executable, "-c", own, *SKYLINE[1:], "--attach", str(run.pid)],
        cwd=tmp_path,
        stdin=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    told = b""

    def read(text: bytes) -> None:
        nonlocal told
        while text not in told:
            told += os.read(reader, 1 << 16)

    read(b"q leave")
    assert b"p pause, c continue, q leave" in told
    os.write(reader, b"p")
    until(lambda: is_paused(run))
    os.write(reader, b"c")
    until(lambda: not is_paused(run))
    os.write(reader, b"s")
    read(b"--allow stop")
    os.write(reader, b"q")
    read(b"detached")
    assert shown.wait(WITHIN_S) == 0
    os.close(reader)
    assert run.is_running()
    (tmp_path / "enough").touch()
    assert watcher.wait(WITHIN_S) == 0


def test_a_killed_watcher_is_replaced_and_the_run_is_as_it_was(
    start: Any, attach: Any, tmp_path: Path
) -> None:
    watcher, run = start()
    refused = attach("--ask", "stop")
    assert refused.returncode == 2
    assert "stop is not allowed" in refused.stderr
    assert "--allow stop" in refused.stderr
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()
    unheard = attach("--ask", "continue")
    assert unheard.returncode == 2
    assert "is no longer watched" in unheard.stderr
    known = len(history(tmp_path))
    with (tmp_path / "again.txt").open("w") as said:
        again = subprocess.Popen([*SKYLINE, "--attach"], cwd=tmp_path / "data", stderr=said, text=True)
    until(lambda: any(one.get("kind") == "course" for one in history(tmp_path)[known:]))
    # It takes clients as the first one did.
    assert attach("--ask", "continue").returncode == 0
    (tmp_path / "enough").touch()
    assert again.wait(WITHIN_S) == 0, (tmp_path / "again.txt").read_text()
    assert not run.is_running() or run.status() == psutil.STATUS_ZOMBIE
    entries = history(tmp_path)
    assert entries[-1]["kind"] == "end"
    assert entries[-1]["exit_code"] is None
    iterations = [one["iteration"] for one in entries if one.get("kind") == "course"]
    assert iterations == sorted(iterations)
    assert "watched again" in (tmp_path / "again.txt").read_text()
    losses = (tmp_path / "losses").read_text()
    (tmp_path / "enough").unlink()
    subprocess.run(
        [sys.executable, "train.py", str(losses.count("\n")), "plain", "0"], cwd=tmp_path, check=True
    )
    assert (tmp_path / "plain").read_text() == losses
    assert not list((tmp_path / "data" / "watched").iterdir())
