"""Completion in real shells: the words that each offers for a line that a person has begun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from skyline.cli.completions.scripts import SHELLS
from skyline.cli.completions.words import CommandWords, command_words
from skyline.cli.main import COMMANDS, main

BASH = """
words=({line})
COMP_WORDS=("${{words[@]}}")
COMP_CWORD=$(( ${{#words[@]}} - 1 ))
_skyline
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
CURRENT=$#words
COMP_WORDS=("${words[@]}")
(( COMP_CWORD = CURRENT - 1 ))
compgen -F _skyline -- "${words[CURRENT]}"
"""
"""As zsh's own ``_bash_complete`` calls the functions of bash."""
LINES = [
    ("skyline wha", {"whatif"}),
    ("skyline profile --dev", {"--device"}),
    ("skyline profile --device ''", {"auto", "cpu", "cuda"}),
    ("skyline profile --gpu H200", {"H200", "H200-NVL"}),
    ("skyline profile --steps 3 tr", {"train.py"}),
    ("skyline profile train.py --dev", set[str]()),  # an argument of the script
    ("skyline whatif train.py num_w", {"num_workers"}),
    ("skyline whatif num_w", set[str]()),  # its subject comes first
    ("skyline apply train.py checkpoint_e", {"checkpoint_every"}),
    ("skyline plan --cluster p5.", {"p5.48xlarge"}),
    ("skyline nothing --dev", set[str]()),
]


@pytest.fixture(scope="module")
def commands() -> tuple[CommandWords, ...]:
    return command_words({name: summary for name, summary in COMMANDS.items() if name != "receive"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data.csv").write_text("")
    return tmp_path


def run(shell: str, script: str, folder: Path) -> set[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    options = {"bash": ("--norc",), "zsh": ("-f",), "fish": ("--no-config",)}[shell]
    done = subprocess.run(
        [program, *options, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return {line for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize(("line", "offered"), LINES, ids=[line for line, _ in LINES])
def test_bash(line: str, offered: set[str], commands: tuple[CommandWords, ...], folder: Path) -> None:
    assert run("bash", SHELLS["bash"](commands) + BASH.format(line=line), folder) == offered


@pytest.mark.parametrize(("line", "offered"), LINES, ids=[line for line, _ in LINES])
def test_fish(line: str, offered: set[str], commands: tuple[CommandWords, ...], folder: Path) -> None:
    (folder / "skyline.fish").write_text(SHELLS["fish"](commands))
    asked = line.removesuffix("''")
    found = run("fish", f'source skyline.fish\ncomplete -C "{asked}"', folder)
    assert offered <= {one.partition("\t")[0] for one in found}


@pytest.mark.parametrize(("line", "offered"), LINES, ids=[line for line, _ in LINES])
def test_zsh(line: str, offered: set[str], commands: tuple[CommandWords, ...], folder: Path) -> None:
    (folder / "skyline.zsh").write_text(SHELLS["zsh"](commands))
    script = f"source ./skyline.zsh\n[[ -n ${{_comps[skyline]}} ]] || exit 1\nwords=({line})\n{ZSH}"
    begun = line.rsplit(maxsplit=1)[-1].strip("'")
    # Zsh itself leaves out the words that begin otherwise.
    assert {word for word in run("zsh", script, folder) if word.startswith(begun)} == offered


def test_each_command_has_its_own_options(commands: tuple[CommandWords, ...]) -> None:
    by_name = {one.name: {name for option in one.options for name in option.names} for one in commands}
    assert set(by_name) == set(COMMANDS) - {"receive"}
    assert "--host" in by_name["profile"]
    assert "--theme" in by_name["tui"]
    assert "--tcp" in by_name["lsp"]


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out.rstrip("\n").endswith("complete -F _skyline -o filenames skyline")
    assert main(["completion", "tcsh"]) == 2
    assert main(["completion", "--help"]) == 0
    assert "usage: skyline completion SHELL" in capsys.readouterr().out, "help is printed again afterwards"
