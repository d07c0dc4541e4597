"""Tasks that people have, on the page of ``skyline serve`` in a real browser: at most two actions, then an answer.

With ``SKYLINE_TASK_PICTURES`` set to a folder, each task keeps a picture of its end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.build import whatif_report
from skyline.trace import store

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("browser"), pytest.mark.timeout(900)]

WAIT_S = 300
TESTS = Path(__file__).resolve().parents[1]
BRIEF = ("--device", "cpu", "--budget", "0", "--steps", "4")


def shows_the_answer(browser: Any, script: Path) -> None:
    """The page begins with two sentences: the cause that bounds the step, and the change that helps."""
    end_s = time.monotonic() + WAIT_S
    while (saved := store.latest(script)) is None:
        assert time.monotonic() < end_s, browser.text("body")
        time.sleep(0.1)
    verdict = whatif_report(analyse(store.load(saved)), None).verdict
    assert verdict is not None
    for sentence in (verdict.bound.removesuffix("."), verdict.advice):
        assert sentence
        browser.until(f"document.body.innerText.includes({json.dumps(sentence)})")


def change_batch_size(browser: Any, size: int) -> None:
    """Type a batch size, and press the button that writes it."""
    number = f"{browser.panel}.querySelector('input[type=number]')"
    browser.until(number)
    browser.tell(f"{number}.value = {size}")
    browser.tell(f"{number}.dispatchEvent(new Event('input'))")
    browser.tell(f"{number}.dispatchEvent(new Event('change'))")
    browser.until(f"{browser.panel}.querySelector('.diff').innerText.includes('{size}')")
    press(browser, "Write into the code")
    browser.until(f"{browser.panel}.querySelector('.told').innerText.includes('Written into')")


def press(browser: Any, title: str) -> None:
    """Press the button or the link of the panel with this title."""
    buttons = f"[...{browser.panel}.querySelectorAll('button, a')]"
    found = f"{buttons}.find((one) => one.innerText.trim() === {json.dumps(title)})"
    browser.until(found)
    browser.tell(f"{found}.click()")


@pytest.mark.long
def test_i_use_hydra(browser: Any, serve: Any, scripts: Any, project: Path) -> None:
    pytest.importorskip("hydra", reason="hydra-core is not installed")
    config = scripts.with_hydra(project)
    before = config.read_text()
    browser.open(serve(*BRIEF, str(project / "train.py")))
    shows_the_answer(browser, project / "train.py")
    change_batch_size(browser, 64)
    assert "config.yaml" in browser.text(".diff", browser.panel)
    assert config.read_text() == before.replace("batch_size: 32", "batch_size: 64")
    browser.picture("task-browser-i-use-hydra.png")
    assert browser.errors == []


def test_i_am_in_a_notebook(browser: Any, serve: Any, scripts: Any, project: Path) -> None:
    notebook = scripts.in_a_notebook(project)
    browser.open(serve(*BRIEF, "--interpreter", sys.executable, str(notebook)))
    shows_the_answer(browser, notebook)
    assert "In [3]:" in browser.text("main"), "places are those of the notebook"
    change_batch_size(browser, 64)
    assert json.loads(notebook.read_text())["cells"][1]["source"] == ["batch_size = 64"]
    browser.picture("task-browser-i-am-in-a-notebook.png")
    assert browser.errors == []


@pytest.mark.long
def test_my_job_runs_under_torchrun(browser: Any, serve: Any, scripts: Any, project: Path) -> None:
    script = scripts.under_torchrun(project)
    browser.open(serve(*BRIEF, "torchrun", "--nproc-per-node", "2", str(script)))
    shows_the_answer(browser, script)
    assert "rank 0 of 2" in browser.text("body")
    browser.picture("task-browser-my-job-runs-under-torchrun.png")
    assert browser.errors == []


def test_the_fastest_settings(browser: Any, serve: Any, scripts: Any, project: Path) -> None:
    script = scripts.waits_for_data(project)
    browser.open(serve(*BRIEF, str(script)))
    shows_the_answer(browser, script)
    press(browser, "Find the best combination")
    told = f"{browser.panel}.querySelector('.told').innerText"
    browser.until(f"{told}.includes('num_workers')")
    browser.picture("task-browser-the-fastest-settings.png")
    press(browser, "Write it into the code")
    browser.until(f"{told}.includes('Written into')")
    assert "num_workers=" in script.read_text()
    assert browser.errors == []


@pytest.mark.long
def test_the_largest_batch_for_24_gb(browser: Any, serve: Any, scripts: Any, project: Path) -> None:
    script = scripts.on_gpu(project)
    browser.open(serve("--gpu", "l4", "--memory", "24GB", str(script)))
    browser.until("document.body.innerText.includes('The largest batch that fits 24 GB is ')")
    browser.picture("task-browser-the-largest-batch-for-24-gb.png")
    assert browser.errors == []


def test_why_is_my_gpu_idle(browser: Any, project: Path) -> None:
    shutil.copyfile(TESTS / "data" / "tiny_gpu.trace.json", project / "trace.json")
    command = [sys.executable, "-m", "skyline.cli.main", "show", "trace.json", "--format", "html"]
    page = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    (project / "trace.html").write_text(page)
    browser.open((project / "trace.html").as_uri())
    assert (
        "The GPU works for 42 % of the step. The critical path of the step is Python and kernel launches"
        in browser.text("body")
    )
    browser.picture("task-browser-why-is-my-gpu-idle.png")
    assert browser.errors == []
