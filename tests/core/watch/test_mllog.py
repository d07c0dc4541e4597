"""The log lines of MLPerf trainings: single lines, the state that follows, and a real run that prints them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skyline.watch.diary import Diary, entries
from skyline.watch.mllog import LogEntry, LoggedTraining, read_entry
from skyline.watch.records import Output
from skyline.watch.watch_report import watch_report
from skyline.watch.watcher import Watcher


def line(key: str, value: object = None, seconds: float = 0.0, **metadata: object) -> str:
    content: dict[str, Any] = {
        "namespace": "",
        "time_ms": int(1e3 * seconds),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 3, **metadata},
    }
    return f":::MLLOG {json.dumps(content)}"


def after(*lines: str) -> LoggedTraining:
    state = LoggedTraining()
    for one in lines:
        entry = read_entry(one)
        assert entry is not None
        state = state.after(entry)
    return state


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (line("eval_accuracy", 0.75, 12, epoch_num=3), LogEntry("eval_accuracy", 0.75, 12.0, epoch=3.0)),
        # A launcher writes the rank before the line.
        ("[0] " + line("seed", 7), LogEntry("seed", 7.0)),
        (line("run_stop", None, 9, status="success"), LogEntry("run_stop", None, 9.0, status="success")),
        (line("block_stop", None, 0, samples_count=3072), LogEntry("block_stop", samples=3072.0)),
        # Some benchmarks count samples under the name of epochs.
        (line("eval_start", None, 0, epoch_num=2030855), LogEntry("eval_start", samples=2030855.0)),
        (line("cache_clear", True), LogEntry("cache_clear")),
        (line("eval_accuracy", float("nan")), LogEntry("eval_accuracy")),
        (line("submission_benchmark", "resnet") + " trailing", LogEntry("submission_benchmark", "resnet")),
        (":::MLLOG {damaged", None),
        (":::MLLOG [1, 2]", None),
        ("training", None),
    ],
)
def test_a_line(text: str, expected: LogEntry | None) -> None:
    assert read_entry(text) == expected


def test_the_state_of_a_training_follows_from_its_lines() -> None:
    state = after(
        line("submission_benchmark", "resnet"),
        line("global_batch_size", 256),
        line("train_samples", 1000),
        line("target_accuracy", 0.759),
        line("init_stop", None, 5),
        line("run_start", None, 10),
        line("epoch_start", None, 11, epoch_num=1),
        line("eval_accuracy", 0.5, 40, epoch_num=2),
        line("eval_samples", 50000, 41),
        line("run_stop", None, 70, status="success", epoch_num=4),
    )
    assert state == LoggedTraining(
        "resnet", 256, 1000, 4, 4000, "eval_accuracy", 0.5, 0.759, "success", 60.0, 10.0
    )
    assert state.words == "epoch 4, eval_accuracy 0.5 (target 0.759), success"
    of_samples = after(line("train_samples", 1000), line("block_stop", None, 0, samples_count=2500))
    assert (of_samples.epoch, of_samples.samples) == (2.5, 2500)
    assert after(line("eval_stop", None, 0, samples_count=2500)).words == "2,500 samples"
    assert after(line("seed", 3)).words == ""


def test_a_history_keeps_changes_and_not_each_position(tmp_path: Path) -> None:
    watcher = Watcher({}, Diary(tmp_path / "h.jsonl", ["python"]), None, print, print)  # type: ignore[arg-type]
    watcher.hear(0, Output(1, line("train_samples", 1000)))
    for step in range(200):
        watcher.hear(0, Output(step, line("train_loss", 2.0, 0, samples_count=step)))
    watcher.hear(0, Output(200, line("eval_accuracy", 0.5, 0, samples_count=200)))
    watcher.hear(0, Output(201, ":::MLLOG nonsense"))
    watcher.end(0)
    history = list(entries(tmp_path / "h.jsonl"))
    logged = [one for one in history if one.get("kind") == "logged"]
    assert len(logged) == 2
    found = watch_report("h.jsonl", history, 0.0, ("h.jsonl",)).logged
    assert found is not None
    assert (found.epoch_samples, found.samples, found.quality) == (1000, 200, 0.5)


PRINTS = """
import json, logging, sys
import torch

logger = logging.getLogger("mllog_default")
logger.propagate = False
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stdout))


def event(key, value=None, **metadata):
    entry = {"namespace": "", "time_ms": 1000, "event_type": "POINT_IN_TIME", "key": key, "value": value,
             "metadata": metadata}
    logger.info(":::MLLOG " + json.dumps(entry))


event("train_samples", 800)
event("target_accuracy", 0.9)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for _ in range(100):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    event("eval_accuracy", 0.3 * (epoch + 1), epoch_num=epoch + 1)
print(":::MLLOG", json.dumps({"key": "run_stop", "metadata": {"status": "success"}}))
print("to the error stream", file=sys.stderr)
"""


@pytest.mark.capture
@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
def test_the_lines_of_a_real_run_are_read_and_its_output_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRINTS)
    command = [sys.executable, "-m", "skyline", "watch", "--interpreter", sys.executable, "--quiet"]
    command += ["--history", str(tmp_path / "h.jsonl"), "--every", "0.05"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    plain, watched = (
        subprocess.run(
            [*words, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        for words in ([sys.executable], command)
    )
    assert watched.returncode == 0, watched.stderr
    assert (watched.stdout, watched.stderr) == (plain.stdout, plain.stderr)
    history = list(entries(tmp_path / "h.jsonl"))
    report = watch_report("h.jsonl", history, 0.0, ("h.jsonl",))
    assert report.state == "ended"
    assert report.exit_code == 0
    logged = report.logged
    assert logged is not None
    assert (logged.epoch, logged.samples, logged.target, logged.status) == (3, 2400, 0.9, "success")
    assert logged.quality == pytest.approx(0.9)
    shown = subprocess.run(
        [*command[:4], "--show", "h.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "epoch 3, eval_accuracy 0.9 (target 0.9), success" in shown.stdout
