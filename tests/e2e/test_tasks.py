"""Tasks that people have, in a terminal: at most two commands each, and the last one ends in a sentence that answers.

Every command is a process of its own in a pseudo-terminal, on a script that really runs. With ``SKYLINE_TASK_PICTURES``
set to a folder, each task draws what its commands show: the pictures of docs/tasks.md.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.build import whatif_report
from skyline.trace import store

pytestmark = [pytest.mark.capture, pytest.mark.timeout(2400)]

WAIT_S = 900
TESTS = Path(__file__).resolve().parents[1]
SKYLINE = (sys.executable, str(TESTS / "brief_measurements.py"))
BRIEF = ("--device", "cpu", "--budget", "0", "--steps", "4")
"""Enough for the figures: trials of other sizes take most of the time of a profile."""


def answers(ran: Any, script: Path) -> None:
    """The page of a profile begins with two sentences: the cause that bounds the step, and the change that helps."""
    assert ran.code == 0, ran.err
    saved = store.latest(script)
    assert saved is not None
    verdict = whatif_report(analyse(store.load(saved)), None).verdict
    assert verdict is not None
    page = " ".join(ran.out.split())
    for sentence in (verdict.bound.removesuffix("."), verdict.advice):
        assert sentence
        assert " ".join(sentence.split()) in page, ran.out


def test_i_use_hydra(terminal: Any, project: Path, scripts: Any) -> None:
    pytest.importorskip("hydra", reason="hydra-core is not installed")
    config = scripts.with_hydra(project)
    before = config.read_text()
    ran = terminal("profile", "train.py", hidden=BRIEF)
    answers(ran, project / "train.py")
    assert "The batch size is read from config.yaml, line 3 (`train.batch_size: 32`)" in " ".join(
        ran.out.split()
    )
    ran = terminal("apply", "train.py", "batch_size=64")
    assert ran.code == 0, ran.err
    assert ran.out.strip().endswith("conf/config.yaml:3: 32 -> 64")
    assert config.read_text() == before.replace("batch_size: 32", "batch_size: 64")


def test_i_am_in_a_notebook(terminal: Any, project: Path, scripts: Any) -> None:
    notebook = scripts.in_a_notebook(project)
    ran = terminal("profile", "train.ipynb", hidden=(*BRIEF, "--interpreter", sys.executable))
    answers(ran, notebook)
    assert "In [3]:" in ran.out, "places are those of the notebook"
    ran = terminal("apply", "train.ipynb", "batch_size=64")
    assert ran.code == 0, ran.err
    assert ran.out.strip().endswith("train.ipynb In [2]:1: 32 -> 64")
    assert json.loads(notebook.read_text())["cells"][1]["source"] == ["batch_size = 64"]


def test_my_job_runs_under_torchrun(terminal: Any, project: Path, scripts: Any) -> None:
    scripts.under_torchrun(project)
    ran = terminal("profile", "torchrun", "--nproc-per-node", "2", "train.py", hidden=BRIEF)
    answers(ran, project / "train.py")
    assert "on rank 0 of 2" in " ".join(ran.out.split())


def test_why_did_it_get_slower(terminal: Any, screen: Any, project: Path, scripts: Any) -> None:
    script = project / "train.py"
    zero = "            optimizer.zero_grad()\n"
    body = scripts.LOOP.replace("BATCH", "32").replace(zero, f"            prepare(x)\n{zero}")
    text = f"import time\n{scripts.HEAD}\ndef prepare(x):\n    time.sleep(0.01)\n\n\ndef main():\n{body}\n\nmain()\n"
    script.write_text(text)
    # The profile of the days when it was fast.
    assert terminal("profile", "train.py", hidden=BRIEF).code == 0
    (fast,) = (project / ".skyline").glob("*.profile.json.gz")
    script.write_text(text.replace("0.01", "0.15"))
    screen.shown.clear()

    # Other programs may run during this test: the difference is far beyond what they cost.
    assert terminal("profile", "train.py", hidden=(*BRIEF, "--replace")).code == 0
    ran = terminal("diff", str(fast.relative_to(project)), "train.py")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert re.search(r"slower time per sample [+\d]", said), ran.out
    grown = ran.out[ran.out.index("Lines that changed most") :].splitlines()
    assert "time.sleep(0.15)" in grown[2], ran.out


def test_the_largest_batch_for_24_gb(terminal: Any, project: Path, scripts: Any) -> None:
    scripts.on_gpu(project)
    ran = terminal("profile", "--gpu", "l4", "--memory", "24GB", "train.py")
    assert ran.code == 0, ran.err
    assert re.search(r"The largest batch that fits 24 GB is \d+", " ".join(ran.out.split())), ran.out


def test_what_an_h100_brings_and_costs(terminal: Any, project: Path, scripts: Any) -> None:
    scripts.on_gpu(project)
    ran = terminal("devices", "--gpu", "l4,h100", "train.py")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert re.search(r"Fastest (and cheapest )?is the (L4|H100): an epoch .*? ms, \$0\.", said), ran.out


@pytest.mark.long
def test_the_fastest_settings(terminal: Any, project: Path, scripts: Any) -> None:
    scripts.waits_for_data(project)
    brief = ("--device", "cpu", "--profile-budget", "0", "--steps", "4")
    ran = terminal("tune", "train.py", "--budget", "90s", hidden=brief)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    # Reading a batch takes most of an iteration, so that workers double the speed at least.
    found = re.search(r"([\d.]+)x \(\S+\) samples per second with \S*.*?num_workers=\d", said)
    assert found, ran.out
    assert float(found[1]) > 1.5


def test_why_is_my_gpu_idle(terminal: Any, project: Path) -> None:
    shutil.copyfile(TESTS / "data" / "tiny_gpu.trace.json", project / "trace.json")
    ran = terminal("whatif", "trace.json")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert (
        "The GPU works for 42 % of the step. The critical path of the step is Python and kernel launches"
        in said
    )
    assert re.search(r"Fused optimizer step \(fused=True\): 1\.\d+x", said), ran.out


@pytest.mark.long
def test_a_slow_change_does_not_get_in(terminal: Any, project: Path, scripts: Any) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run([*git, "init", "-q"], cwd=project, check=True)
    body = scripts.LOOP.replace("BATCH", "32")
    for width in ("256", "4096"):
        text = f"{scripts.HEAD}\ndef main():\n{body.replace('256', width)}\n\nmain()\n"
        (project / "train.py").write_text(text)
        subprocess.run([*git, "add", "train.py"], cwd=project, check=True)
        subprocess.run([*git, "commit", "-qm", width], cwd=project, check=True)
    ran = terminal("check", "train.py", "--base", "HEAD~1", hidden=("--rounds", "6"))
    assert ran.code == 1, ran.err
    assert re.search(r"Over budget: .*\.", ran.out), ran.out


class Tunnel:
    """A port of this machine that stands for one of another, as ``ssh -L`` makes it: bytes pass in both directions."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        try:
            while piece := one.recv(1 << 16):
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read()


def measured(page: str) -> dict[str, Any] | None:
    """The report behind the page, once there is one."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        with (
            contextlib.suppress(urllib.error.HTTPError),
            urllib.request.urlopen(f"{page}profile", timeout=30) as answer,
        ):
            return json.loads(answer.read())
        time.sleep(1)
    return None


def photograph(address: str, name: str) -> None:
    """Keep the page as Chromium shows it, where pictures are wanted."""
    folder, browser = os.environ.get("SKYLINE_TASK_PICTURES"), shutil.which("chromium")
    if folder and browser:
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1100,900",
        )
        path = Path(folder, name).absolute()
        subprocess.run(
            [browser, *options, f"--screenshot={path}", address], check=True, capture_output=True, timeout=120
        )


@pytest.fixture
def on_exit() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_on_the_gpu_box_from_my_laptop(
    project: Path, environment: dict[str, str], on_exit: ExitStack, scripts: Any
) -> None:
    scripts.plain(project)
    command = [*SKYLINE, "serve", "--no-browser", *BRIEF, "train.py"]
    box = subprocess.Popen(
        command,
        cwd=project,
        env={**environment, "SSH_CONNECTION": "10.0.0.1 4000 10.0.0.2 22"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    on_exit.callback(box.wait, 30)
    on_exit.callback(box.terminate)
    assert box.stdout is not None
    assert box.stderr is not None
    address = box.stdout.readline().strip()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([^/]+)/", address)
    assert found, address
    told = box.stderr.readline()
    assert f"ssh -L {found[1]}:127.0.0.1:{found[1]} {socket.gethostname()}" in told

    # The port may be taken on the laptop: another one leads there as well.
    tunnel = Tunnel(int(found[1]))
    on_exit.callback(tunnel.close)
    page = f"http://127.0.0.1:{tunnel.port}/{found[2]}/"
    assert tunnel.port != int(found[1])
    report = measured(page)
    assert report is not None
    assert report["batch_size"]["value"] == 32
    # The first report is that of the first iterations; the profile is saved when all are measured.
    end_s = time.monotonic() + WAIT_S
    while (saved := store.latest(project / "train.py")) is None and time.monotonic() < end_s:
        time.sleep(0.1)
    assert saved is not None
    verdict = whatif_report(analyse(store.load(saved)), None).verdict
    assert verdict is not None
    sentences = [" ".join(one.split()) for one in (verdict.bound.removesuffix("."), verdict.advice)]
    shown = ""
    while not all(one in shown for one in sentences) and time.monotonic() < end_s:
        shown = " ".join(html.unescape(re.sub(r"<[^>]*>", "", fetched(page).decode())).split())
        time.sleep(0.1)
    for sentence in sentences:
        assert sentence in shown
    photograph(page, "task-on-the-gpu-box-from-my-laptop.png")
