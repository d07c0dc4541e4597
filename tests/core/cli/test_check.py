"""``skyline check`` in a git repository whose latest commit made the script slower."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

Run = Callable[..., object]

ACTION = Path(__file__).parents[3] / ".github/actions/check/action.yml"
BRIEF = Path(__file__).parents[2] / "brief_measurements.py"
SCRIPT = """\
import torch
model = torch.nn.Linear(SIZE, SIZE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    optimizer.zero_grad()
    model(torch.randn(64, SIZE)).sum().backward()
    optimizer.step()
"""
TABLE = """\
[tool.skyline.budget]
script = "train.py"
base = "HEAD~1"
"""


def git(*words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], check=True, capture_output=True)


@pytest.fixture
def repository(skyline: Run, tmp_path: Path) -> Path:
    """Two commits: in the second one a layer is three times as wide."""
    git("init", "-q")
    (tmp_path / "pyproject.toml").write_text(TABLE)
    for size in (256, 768):
        (tmp_path / "train.py").write_text(SCRIPT.replace("SIZE", str(size)))
        git("add", "-A")
        git("commit", "-qm", "size")
    return tmp_path


@pytest.mark.capture
def test_a_slower_commit_is_over_the_budget(skyline: Run, repository: Path) -> None:
    ran = skyline("check", "--rounds", "6", "--json", "-", "--junit", "out.xml", "--quiet")
    report = json.loads(ran.out)
    assert ran.code == 1, ran.err
    assert report["outcome"] == "over"
    assert report["limits"][0]["measured"]["value"] > 1
    assert report["starts"] >= 4
    assert b"<failure" in (repository / "out.xml").read_bytes()
    left = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(left.splitlines()) == 1


@pytest.mark.capture
def test_a_limit_of_memory_needs_no_base(skyline: Run, repository: Path) -> None:
    (repository / "pyproject.toml").write_text("[tool.skyline.budget]\npeak_mb = 1\n")
    ran = skyline("check", "train.py", "--rounds", "6")
    assert ran.code == 1, ran.err
    assert "Over budget: peak memory." in ran.out
    assert "against itself" in ran.out


@pytest.mark.parametrize(
    ("table", "arguments", "said"),
    [
        (TABLE, ["train.py", "--base", "nowhere"], "nowhere is not a revision of"),
        (TABLE, ["train.py", "--base", "--help-me"], "expected one argument"),
        (TABLE, ["train.py", "--slower", "fast"], "slower"),
        (TABLE, ["new.py"], "new.py does not exist in HEAD~1"),
        (TABLE, ["nowhere.py"], "nowhere.py does not exist"),
        ("", ["train.py"], "There is no limit to check"),
        ("", ["train.py", "--slower", "3%"], "needs a base"),
        ("", [], "No script is given"),
        ("[tool.skyline.budget]\nslowr = '5%'\n", ["train.py"], "slowr"),
        ("[tool.skyline]\nbudget = 3\n", ["train.py"], "must be a table"),
    ],
)
def test_what_cannot_be_checked_is_said_before_anything_runs(
    skyline: Run, repository: Path, table: str, arguments: list[str], said: str
) -> None:
    (repository / "pyproject.toml").write_text(table)
    (repository / "new.py").write_text("")
    ran = skyline("check", *arguments)
    assert ran.code == 2
    assert said in ran.err


def test_a_script_outside_any_repository_has_no_base(skyline: Run, script: Path) -> None:
    ran = skyline("check", "train.py", "--base", "main")
    assert ran.code == 2
    assert "not a git repository" in ran.err


@pytest.mark.capture
def test_a_base_that_fails_is_named_with_its_reason(skyline: Run, repository: Path) -> None:
    (repository / "train.py").write_text("import no_such_module\n" + SCRIPT.replace("SIZE", "64"))
    git("commit", "-qam", "broken")
    (repository / "train.py").write_text(SCRIPT.replace("SIZE", "64"))
    ran = skyline("check", "--base", "HEAD", "--rounds", "6", "--quiet")
    assert ran.code == 1
    assert "The base revision" in ran.err
    assert "no module no_such_module" in ran.err


@pytest.mark.capture
def test_the_github_action_passes_on_the_outcome(
    repository: Path, act: Callable[..., tuple[int, dict[str, str]]]
) -> None:
    (repository / "pyproject.toml").write_text("[tool.skyline.budget]\npeak_mb = 1\n")
    assert act(SCRIPT="train.py", MINUTES="0.1") == (1, {"outcome": "over"})
    assert b"<testsuite" in (repository / "skyline.xml").read_bytes()
    assert "peak memory" in (repository / "summary.md").read_text()


def test_the_github_action_fails_where_nothing_was_measured(
    repository: Path, act: Callable[..., tuple[int, dict[str, str]]]
) -> None:
    assert act(SCRIPT="train.py", BASE="nowhere") == (2, {})


@pytest.fixture
def act(repository: Path) -> Callable[..., tuple[int, dict[str, str]]]:
    """Runs the step of the action that checks, as a runner does; gives its exit code and its outputs."""
    action = YAML(typ="safe").load(ACTION.read_text())
    defaults = {name.upper(): one["default"] for name, one in action["inputs"].items()}
    step = next(one for one in action["runs"]["steps"] if one.get("id") == "check")
    program = repository / "bin" / "skyline"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BRIEF}" "$@"\n')
    program.chmod(0o755)

    def run(**inputs: str) -> tuple[int, dict[str, str]]:
        output = repository / "output"
        output.touch()
        path = os.pathsep.join((str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        runner = {
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": "summary.md",
            "RUNNER_TEMP": str(repository),
        }
        given = {name: {**defaults, **inputs}[name] for name in step["env"]}
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=repository,
            env={**os.environ, **runner, **given, "PATH": path},
            check=False,
            timeout=300,
        )
        return ran.returncode, dict(line.split("=", 1) for line in output.read_text().splitlines())

    return run
