from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TRAINING = """\
import sys
import torch
print("arguments", sys.argv[1:])
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch_size = 8
for step in range(int(sys.argv[2])):
    x = torch.randn(batch_size, 32)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_script_that_is_not_there_names_the_nearest(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    ran = skyline("profile", "trian.py")
    assert ran.code == 2
    assert "trian.py does not exist" in ran.err
    assert "Did you mean train.py?" in ran.err


def test_a_directory_is_no_script(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    ran = skyline("profile", "project")
    assert ran.code == 2
    assert "project is a directory" in ran.err


@pytest.mark.parametrize(
    "words", [["--steps", "0", "t.py"], ["--timeout", "-1", "t.py"], ["--nonsense", "t.py"], []]
)
def test_wrong_options(skyline: Run, words: list[str]) -> None:
    ran = skyline("profile", *words)
    assert ran.code == 2
    assert "usage: skyline profile" in ran.err


def test_an_interpreter_without_torch(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    ran = skyline("profile", "--interpreter", str(tmp_path / "bare/bin/python"), "train.py")
    assert ran.code == 3
    assert "torch" in ran.err.lower()
    assert "install" in ran.err


@pytest.mark.capture
def test_a_syntax_error_is_shown_with_its_place(skyline: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("import torch\nfor x in (1, 2:\n    pass\n")
    ran = skyline("profile", "--interpreter", sys.executable, "train.py")
    assert ran.code == 1
    assert "SyntaxError" in ran.err
    assert "line 2" in ran.err
    assert "skyline/" not in ran.err


@pytest.mark.capture
def test_a_script_that_raises_shows_its_own_traceback(skyline: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "import torch\n\ndef train():\n    raise RuntimeError('no data')\n\ntrain()\n"
    )
    ran = skyline("profile", "--quiet", "--interpreter", sys.executable, "train.py")
    assert ran.code == 1
    assert "RuntimeError: no data" in ran.err
    assert "line 4" in ran.err
    assert ran.out == ""
    assert "skyline/capture" not in ran.err


@pytest.mark.capture
def test_a_script_that_needs_arguments_shows_its_usage_text_once(skyline: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "import argparse\nimport torch\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('data')\nparser.parse_args()\n"
    )
    ran = skyline("profile", "--interpreter", sys.executable, "train.py")
    assert ran.code == 1
    assert ran.err.count("usage: train.py [-h] data") == 1
    assert "did not accept its arguments: the following arguments are required: data" in ran.err
    assert "skyline profile train.py ARGS…" in ran.err


@pytest.mark.capture
def test_a_script_that_never_trains(skyline: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("import torch\nprint(torch.zeros(2))\n")
    ran = skyline("profile", "--quiet", "--interpreter", sys.executable, "train.py")
    assert ran.code == 3
    assert ran.out == ""
    assert "tensor([0., 0.])" in ran.err, "what the script prints is not ours to leave out"
    assert "skyline: launch" not in ran.err


@pytest.mark.capture
@pytest.mark.parametrize(
    ("end", "why", "next_step"),
    [
        ("os._exit(7)", "The script exited with status 7 before it could be measured", "os._exit"),
        ("os.kill(os.getpid(), 9)", "The script was ended by signal SIGKILL", "smaller batch size"),
        ("sys.exit('no files in data')", "The script ended itself: no files in data", ""),
        ("sys.exit(3)", "The script ended itself: exit status 3", ""),
    ],
)
def test_a_script_that_prints_and_ends_has_its_end_told(
    skyline: Run, tmp_path: Path, end: str, why: str, next_step: str
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(f"import os, sys, torch\nprint('epoch 1', flush=True)\n{end}\n")
    ran = skyline("profile", "--interpreter", sys.executable, "train.py")
    assert ran.code == 1
    assert f"skyline: {why}\n" in ran.err
    assert next_step in ran.err
    assert ran.err.count("epoch 1") == 1


@pytest.mark.capture
def test_profile_from_end_to_end(skyline: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline(
        "profile", "--json", "-", "--steps", "4", "--interpreter", sys.executable,
        "train.py", "--steps", "400", "--", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["schema"] == "skyline.profile/1"
    assert report["arguments"] == ["--steps", "400", "--", "--json"]
    assert "arguments ['--steps', '400', '--', '--json']" in ran.err
    assert sum(report["phases"].values()) == pytest.approx(report["iteration_ms"]["value"])
    assert sum(line["self_ms"] for line in report["lines"]) == pytest.approx(report["iteration_ms"]["value"])
    told = ran.err.index("of the step.")
    assert ran.err.index("per iteration") < told < ran.err.index("skyline: curve")
    saved = list((tmp_path / ".skyline").glob("train-*"))
    assert sorted(path.suffix for path in saved) == [".gz", ".html"]
    assert (tmp_path / "train.py").read_text() == TRAINING


@pytest.mark.capture
def test_no_budget_leaves_the_trials_out(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    options = ("--steps", "4", "--warmup", "2", "--budget", "0", "--json", "-")
    ran = skyline("profile", *options, "train.py", "--steps", "400")
    assert ran.code == 0, ran.err
    assert "skyline: curve" not in ran.err
    assert [point["measured"] for point in json.loads(ran.out)["curve"]] in ([], [True])


@pytest.mark.capture
def test_a_profile_that_cannot_be_saved_is_shown_all_the_same(skyline: Run, tmp_path: Path) -> None:
    # Without a batch size to vary it is over soon.
    (tmp_path / "train.py").write_text(TRAINING.replace("batch_size = 8\n", "").replace("batch_size,", "8,"))
    options = ("--steps", "3", "--warmup", "2", "--quiet", "--output-dir", "train.py/inside")
    ran = skyline("profile", *options, "train.py", "--steps", "100000")
    assert ran.code == 2
    assert "could not be saved" in ran.err
    assert "train.py:" in ran.out


@pytest.mark.capture
def test_apply_without_a_profile_measures_no_other_batch_sizes_and_keeps_nothing(
    skyline: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline(
        "apply",
        "--diff",
        "--interpreter",
        sys.executable,
        "train.py",
        "batch_size=16",
        "--",
        "--steps",
        "400",
    )
    assert ran.code == 0, ran.err
    assert "+batch_size = 16" in ran.out
    assert "skyline: curve" not in ran.err
    assert "skyline: try" not in ran.err
    assert not list((tmp_path / ".skyline").glob("train-*"))
