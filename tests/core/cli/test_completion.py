"""Completion in real shells: the words that each offers for a line that a person has begun."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from skyline.cli.main import COMMANDS, main

BASH = """
COMP_LINE="{line}"
COMP_POINT=${{#COMP_LINE}}
_python_argcomplete skyline
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
source ./skyline.zsh
[[ -n ${{_comps[skyline]}} ]] || exit 1
_describe() {{ print -rl -- "${{(@)${{(P@)2}}%%:*}}" }}
words=(skyline)
BUFFER="{line}"
CURSOR=$#BUFFER
_python_argcomplete
"""
"""Outside its editor of lines Zsh shows nothing: the words and their descriptions go to ``_describe``."""
LINES = [
    ("skyline wha", {"whatif"}),
    ("skyline rec", set[str]()),  # other programs start it
    ("skyline profile --dev", {"--device"}),
    ("skyline profile --host", {"--host", "--host-skyline"}),
    ("skyline profile --device ", {"auto", "cpu", "cuda"}),
    ("skyline profile --gpu H200", {"H200", "H200-NVL"}),
    ("skyline profile --steps 3 tr", {"train.py"}),
    ("skyline profile train.py --dev", set[str]()),  # an argument of the script
    ("skyline profile --steps 3 train.py --seed 1 da", {"data.csv", "data/"}),
    ("skyline show tr", {"train.py"}),
    ("skyline whatif train.py num_w", {"num_workers"}),
    ("skyline whatif train.py --gpu H200 batch_size=64 num_w", {"num_workers"}),
    ("skyline whatif num_w", set[str]()),  # its subject comes first
    ("skyline apply train.py checkpoint_e", {"checkpoint_every"}),
    ("skyline plan --cluster p5.", {"p5.48xlarge"}),
    ("skyline nothing --dev", set[str]()),
]
every_line = pytest.mark.parametrize(("line", "offered"), LINES, ids=[line for line, _ in LINES])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data.csv").write_text("")
    (tmp_path / "data").mkdir()
    program = tmp_path / "bin" / "skyline"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skyline "$@"\n')
    program.chmod(0o755)
    return tmp_path


def script_for(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def run(shell: str, script: str, folder: Path) -> set[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    options = {"bash": ("--norc",), "zsh": ("-f",), "fish": ("--no-config",)}[shell]
    environment = {
        "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [program, *options, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return {word for line in done.stdout.splitlines() if (word := line.partition("\t")[0].rstrip())}


@every_line
def test_bash(line: str, offered: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bash", script_for("bash", capsys) + BASH.format(line=line), folder) == offered


@every_line
def test_fish(line: str, offered: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "skyline.fish").write_text(script_for("fish", capsys))
    assert run("fish", f'source skyline.fish\ncomplete -C "{line}"', folder) == offered


@every_line
def test_zsh(line: str, offered: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "skyline.zsh").write_text(script_for("zsh", capsys))
    assert run("zsh", ZSH.format(line=line), folder) == offered


def test_a_word_of_the_line_is_never_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "skyline profile \\$(touch${IFS}ran)x"
    run("bash", script_for("bash", capsys) + BASH.format(line=line), folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_completion_reads_the_parser_that_the_command_uses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = import_module(f"skyline.cli.{name}").make_parser()
    assert made.prog == f"skyline {name}"
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out == made.format_help()


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
