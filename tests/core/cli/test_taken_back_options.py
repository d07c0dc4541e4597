"""Options of ours behind the script's name that are taken for ours."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.cli.devices import taken_back

Run = Callable[..., Any]


def ours() -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    return [
        parser.add_argument("--gpu"),
        parser.add_argument("--json"),
        parser.add_argument("--bare", action="store_true"),
    ]


@pytest.mark.parametrize(
    ("words", "taken", "left"),
    [
        (["--gpu", "t4,h100", "--epochs", "3"], ["--gpu", "t4,h100"], ("--epochs", "3")),
        (["--epochs", "3", "--gpu=t4"], ["--gpu=t4"], ("--epochs", "3")),
        (["--json", "-", "data", "--gpu", "t4"], ["--json", "-", "--gpu", "t4"], ("data",)),
        (["--bare", "data"], ["--bare"], ("data",)),
        (["--gpu", "0"], [], ("--gpu", "0")),
        (["--gpu=0,1"], [], ("--gpu=0,1",)),
        (["--gpu"], ["--gpu"], ()),
    ],
)
def test_what_the_script_does_not_know_is_ours(
    tmp_path: Path, words: list[str], taken: list[str], left: tuple[str, ...]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert taken_back(words, ours(), script) == (taken, left)


def test_what_the_script_knows_stays_its_own(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("parser.add_argument('--gpu')")
    words = ["--gpu", "t4", "--json", "out.json"]
    assert taken_back(words, ours(), script) == (["--json", "out.json"], ("--gpu", "t4"))


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--gpu", "train.py"], "The script is missing: train.py was read as the value of --gpu", "t4,h100"),
        (
            ["--gpu", "t4", "h100", "train.py"],
            "h100 is a GPU, and the name of the script is expected here",
            "--gpu t4,h100",
        ),
        (
            ["h100", "train.py"],
            "h100 is a GPU, and the name of the script is expected here",
            "--gpu h100 SCRIPT",
        ),
        (["train.py", "--gpu", "t5"], "no GPU called 't5' is known", "Did you mean T4"),
        (["train.py", "--gpu", "zzzz"], "no GPU called 'zzzz' is known", "skyline gpus"),
        (["train.py", "--provider", "acme"], "no price of acme is known", "AWS"),
    ],
)
def test_a_slip_of_the_tongue_is_told_before_anything_runs(
    skyline: Run, tmp_path: Path, words: list[str], said: str, hint: str
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')\n")
    ran = skyline("devices", *words)
    assert ran.code == 2
    assert said in ran.err
    assert hint in ran.err
    assert "it ran" not in ran.err


def test_a_price_that_cannot_be_used_is_told_before_anything_runs(
    skyline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text('[[price]]\ngpu = "t4"\nusd_per_hour = "3"\n')
    monkeypatch.setenv("SKYLINE_DEVICES", str(tmp_path / "own.toml"))
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')\n")
    ran = skyline("devices", "train.py")
    assert ran.code == 2
    assert 'price "t4": usd_per_hour does not fit: Expected float' in ran.err
    assert "it ran" not in ran.err
