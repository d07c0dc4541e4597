"""Real runs under ``skyline watch``: hooks, exit codes, output, and a watcher that is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from skyline.watch.records import Failed, Parameters, Record, Sample, Window
from skyline.watch.run import WatchedProcess

pytestmark = [pytest.mark.capture, pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")]


def _trainings():
    spec = importlib.util.spec_from_file_location("watch_trainings", Path(__file__).with_name("trainings.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["watch_trainings"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


trainings = _trainings()
CRASHES, DIVERGES, HEALTHY, PROBLEMS = (
    trainings.CRASHES,
    trainings.DIVERGES,
    trainings.HEALTHY,
    trainings.PROBLEMS,
)
EPOCHS = 12


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def plain_losses(tmp_path_factory: pytest.TempPathFactory, preloaded: str) -> str:
    """The losses of the healthy script under plain Python."""
    folder = tmp_path_factory.mktemp("plain")
    script = folder / "train.py"
    script.write_text(HEALTHY)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": preloaded}
    ran = subprocess.run(
        [sys.executable, script, str(EPOCHS), folder / "losses"], env=environment, check=False
    )
    assert ran.returncode == 5
    return (folder / "losses").read_text()


def watch(
    folder: Path, text: str, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(text)
    command = [sys.executable, "-m", "skyline", "watch", "--interpreter", sys.executable]
    options = ("--history", str(folder / "history.jsonl"), "--every", "0.05", "--overhead", "0.1", *options)
    return subprocess.run(
        [*command, *options, "train.py", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def alerts(folder: Path) -> dict[str, dict[str, Any]]:
    entries = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert entries[0]["schema"] == "skyline.watch/1"
    return {entry["rule"]: entry for entry in entries[1:] if entry["kind"] == "alert"}


@pytest.mark.xdist_group("plain losses")
def test_a_healthy_run_has_the_same_losses_output_and_exit_code(tmp_path: Path, plain_losses: str) -> None:
    ran = watch(tmp_path, HEALTHY, str(EPOCHS), "losses")
    assert ran.returncode == 5, ran.stderr
    assert ran.stdout == "training\ndone False\n"
    assert (tmp_path / "losses").read_text() == plain_losses
    # Times depend on the machine; the numbers of the tensors do not.
    of_times = {"throughput_falls", "loader_stalls", "checkpoint_stalls"}
    assert set(alerts(tmp_path)) <= of_times
    assert "watching ended" not in ran.stderr
    entries = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    last = next(entry for entry in reversed(entries) if entry["kind"] == "course")
    assert last["iteration"] > 0.5 * EPOCHS * 8
    assert 0 < float(last["loss"]) < 2


@pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="the kernel counts no delays of threads"
)
def test_windows_have_the_delay_of_their_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(DIVERGES)
    monkeypatch.chdir(tmp_path)
    heard: list[Record] = []
    process = WatchedProcess([sys.executable, "train.py", "3000"], share=0.1, every_s=0.05)
    try:
        process.listen(lambda _, record: heard.append(record), lambda: None)
    finally:
        process.close()
    delays = [one.delayed_s for one in heard if isinstance(one, Window)]
    assert delays
    assert all(one is not None and one >= 0 for one in delays)


RESTS = """\
import sys
import torch
weight = torch.nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
seen, changes = set(), 0
hooked = True
for iteration in range(200_000):
    weight.sum().backward()
    if sys.argv[1] == "steps":
        optimizer.step()
    now = hasattr(torch.autograd.backward, "__wrapped__")
    changes += now is not hooked
    hooked = now
    if changes == 3:
        break
print(changes)
"""


@pytest.mark.parametrize("iterations", ["steps", "passes"])
def test_hooks_are_out_while_a_run_of_short_iterations_rests(
    iterations: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(
        RESTS.replace("200_000", "200_000" if iterations == "steps" else "3000")
    )
    monkeypatch.chdir(tmp_path)
    heard: list[Record] = []
    process = WatchedProcess([sys.executable, "train.py", iterations], share=0.005, every_s=0.005)
    try:
        process.listen(lambda _, record: heard.append(record), lambda: None)
    finally:
        process.close()
    windows = [one for one in heard if isinstance(one, Window)]
    missing = [now.iteration - now.iterations - before.iteration for before, now in pairwise(windows)]
    if iterations == "steps":
        assert capfd.readouterr().out == "3\n"
        # Iterations count on through a rest.
        assert max(missing) > 0
    else:
        # Nothing could end the rest of a run without optimizer steps.
        assert capfd.readouterr().out == "0\n"
        assert set(missing) == {0}


KERAS = """\
import os
os.environ["KERAS_BACKEND"] = "torch"
import numpy
import keras

x = numpy.random.rand(256, 8).astype("float32")
y = numpy.random.rand(256, 2).astype("float32")
hidden = keras.layers.Dense(16, activation="relu", name="hidden")
model = keras.Sequential([hidden, keras.layers.Dense(2, name="head")])
optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=2)
model.compile(optimizer=optimizer, loss="mse")
model.fit(x, y, batch_size=16, epochs=40, verbose=0)
"""
UPDATES = 40 * 256 // 16 // 2


@pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="keras is not installed")
def test_updates_of_keras_are_the_iterations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(KERAS)
    monkeypatch.chdir(tmp_path)
    heard: list[Record] = []
    process = WatchedProcess([sys.executable, "train.py"], share=0.5, every_s=0.05)
    try:
        process.listen(lambda _, record: heard.append(record), lambda: None)
    finally:
        process.close()
    assert not [one for one in heard if isinstance(one, Failed)]
    # Two batches are one update; without the optimizer's hooks each backward pass would count.
    assert UPDATES / 2 < max(one.iteration for one in heard if isinstance(one, Window)) <= UPDATES
    rows = [row for one in heard if isinstance(one, Parameters) for row in one.rows]
    places = {row.name.partition("/")[2]: row.line and row.line.line for row in rows}
    lines = KERAS.splitlines()
    first, second = (
        next(n for n, text in enumerate(lines, 1) if name in text) for name in ("hidden =", "head")
    )
    assert places == {
        "hidden/kernel": first, "hidden/bias": first, "head/kernel": second, "head/bias": second
    }  # fmt: skip
    sample = next(one for one in heard if isinstance(one, Sample))
    assert sorted(number for number, _ in sample.gradients) == [0, 1, 2, 3]
    assert all(change > 0 for _, change, _, _ in sample.updates)
    assert len(sample.updates) == 4


def test_the_hooks_of_a_real_run_show_its_problems(tmp_path: Path) -> None:
    ran = watch(tmp_path, PROBLEMS)
    assert ran.returncode == 0, ran.stderr
    found = alerts(tmp_path)
    lines = PROBLEMS.splitlines()

    def line(rule: str) -> str:
        assert os.path.realpath(found[rule]["file"]) == os.path.realpath(tmp_path / "train.py")
        return lines[found[rule]["line"] - 1].strip()

    assert line("loader_stalls").startswith("for x, y in")
    assert line("saturated_activations") == "self.first = nn.Linear(8, 16)"
    assert line("dead_units") == "self.second = nn.Linear(16, 16)"
    assert "unused" in found["weights_not_updating"]["title"]
    assert line("weights_not_updating") == "self.unused = nn.Linear(4, 4)"
    assert line("unbalanced_classes").startswith("for x, y in")
    assert "class 0" in found["unbalanced_classes"]["title"]
    assert line("checkpoint_stalls") == "torch.save(model.state_dict(), Slowly())"
    assert line("overfitting").startswith("nn.MSELoss()")
    assert line("vanishing_gradients") == "self.first = nn.Linear(8, 16)"
    assert "exploding_gradients" in found
    assert not {"loss_not_finite", "gpu_idle", "straggler", "memory_nearly_full"} & set(found)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("iterations that slow down", marks=pytest.mark.long),
        pytest.param("too small a learning rate", marks=pytest.mark.long),
        "slow rank",
        pytest.param("kept graphs", marks=pytest.mark.long),
    ],
)
def test_a_training_shows_the_problem_that_it_was_written_for(name: str, tmp_path: Path) -> None:
    training = trainings.TRAININGS[name]
    ran = watch(tmp_path, training.text, *training.arguments)
    assert ran.returncode == training.exit_code, ran.stderr
    assert training.shows <= set(alerts(tmp_path)), ran.stderr


@pytest.mark.xdist_group("plain losses")
def test_a_watcher_that_is_killed_leaves_the_run_as_it_was(tmp_path: Path, plain_losses: str) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    command = [
        sys.executable,
        "-m",
        "skyline",
        "watch",
        "--no-history",
        "--every",
        "0.05",
        "--interpreter",
        sys.executable,
    ]
    watcher = subprocess.Popen(
        [*command, "train.py", str(EPOCHS), "losses"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == "training\n"
    losses = tmp_path / "losses"
    deadline = time.monotonic() + 200
    while not losses.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()
    # The run holds the pipe open until it has ended.
    assert watcher.stdout.read() == "done False\n"
    assert losses.read_text() == plain_losses


def test_a_crash_has_its_own_traceback_and_exit_code(tmp_path: Path) -> None:
    ran = watch(tmp_path, CRASHES, options=("--quiet",))
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert plain.returncode == ran.returncode == 1
    assert "backward through the graph a second time" in plain.stderr
    assert ran.stderr == plain.stderr
    assert ran.stdout == plain.stdout


@pytest.fixture(params=["at a terminal", "in the background"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Shells start programs in the background with Ctrl+C ignored."""
    before = signal.signal(
        signal.SIGINT, signal.SIG_IGN if request.param == "in the background" else signal.default_int_handler
    )
    yield request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("place")
def test_a_rule_may_stop_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tell = tmp_path / "tell.py"
    # Gradients explode before: each rule that alerts calls the command.
    tell.write_text("import sys; open(sys.argv[1], 'a').write(sys.stdin.read().strip() + '\\n')")
    notify = f"{sys.executable} {tell} {tmp_path / 'told.json'}"
    ran = watch(tmp_path, DIVERGES, "100000", options=("--stop-on", "loss_not_finite", "--notify", notify))
    # As after Ctrl+C.
    assert ran.returncode in {-signal.SIGINT, 130}
    assert "KeyboardInterrupt" in ran.stderr
    assert "stopping the run because of loss_not_finite" in ran.stderr
    (checkpoint,) = tmp_path.glob("history-stopped-*.pt")
    kept = torch.load(checkpoint, weights_only=True)
    assert kept["iteration"] > 200
    assert list(kept["models"][0]) == ["weight", "bias"]
    told = [json.loads(line) for line in (tmp_path / "told.json").read_text().splitlines()]
    assert "loss_not_finite" in [one["rule"] for one in told]


def test_a_rule_may_pause_the_run_until_somebody_continues_it(tmp_path: Path) -> None:
    # The run lasts until the test has seen it pause, however slow the watcher is.
    ends = "    if os.path.exists('enough'):\n        break\n    optimizer.zero_grad()\n"
    script = DIVERGES.replace("    optimizer.zero_grad()\n", ends).replace("import sys", "import os, sys")
    (tmp_path / "train.py").write_text(script)
    options = ["--history", "history.jsonl", "--every", "0.05", "--pause-on", "loss_not_finite"]
    command = [
        sys.executable,
        "-m",
        "skyline",
        "watch",
        "--interpreter",
        sys.executable,
        *options,
        "train.py",
        "100000",
    ]
    watcher = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert watcher.stderr is not None
    said = next(line for line in watcher.stderr if "paused because of loss_not_finite" in line)
    process = int(said.partition("kill -CONT ")[2].split()[0])
    assert watcher.poll() is None
    deadline = time.monotonic() + 60
    while psutil.Process(process).status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    assert psutil.Process(process).status() == psutil.STATUS_STOPPED
    (tmp_path / "enough").touch()
    os.kill(process, signal.SIGCONT)
    watcher.stderr.read()
    assert watcher.wait() == 0


def test_a_paused_run_is_ended_by_a_signal(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DIVERGES)
    options = ["--no-history", "--every", "0.05", "--pause-on", "loss_not_finite"]
    command = [
        sys.executable,
        "-m",
        "skyline",
        "watch",
        "--interpreter",
        sys.executable,
        *options,
        "train.py",
        "100000",
    ]
    watcher = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert watcher.stderr is not None
    next(line for line in watcher.stderr if "paused because of" in line)
    time.sleep(0.2)
    watcher.send_signal(signal.SIGTERM)
    watcher.stderr.read()
    assert watcher.wait() in {-signal.SIGTERM, 128 + signal.SIGTERM}
