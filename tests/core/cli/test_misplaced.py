"""Options of ours among the script's words: told, or refused, unless they are the script's own."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.cli.command_line import misplaced, remarks
from skyline.cli.main import COMMANDS

Run = Callable[..., Any]

ENDS_AT_ONCE = "import sys\nsys.exit('ran with ' + ' '.join(sys.argv[1:]))\n"
BEFORE_THE_SCRIPT = ("profile", "serve", "watch", "devices")
"""Commands whose own options stand before the script's name."""
BEFORE_ARGUMENTS = {
    "whatif": ("train.py",),
    "verify": ("train.py", "amp"),
    "apply": ("train.py", "amp"),
    "tune": ("train.py",),
    "sweep": ("train.py", "--vary", "SIZE=1,2"),
    "check": ("train.py", "--base", "HEAD"),
    "estimate": ("train.py", "--iterations", "9"),
    "plan": ("train.py", "--cluster", "dgx-a100"),
    "tui": ("train.py",),
}
"""Commands whose own options may also stand behind the script, up to its first argument, with words that they need."""
WITHOUT_ARGUMENTS = {
    "completion",
    *("ranks", "ledger", "show", "history", "diff", "export", "lsp", "calibrate", "gpus", "config"),
    *("doctor", "receive"),
}


def test_every_command_with_arguments_of_a_script_is_among_these() -> None:
    assert {*BEFORE_THE_SCRIPT, *BEFORE_ARGUMENTS} | WITHOUT_ARGUMENTS == set(COMMANDS)


@pytest.mark.parametrize("command", BEFORE_ARGUMENTS)
@pytest.mark.parametrize("dashes", [False, True])
def test_an_option_behind_the_scripts_first_argument_is_told(
    skyline: Run, tmp_path: Path, command: str, dashes: bool
) -> None:
    # A quoted name is one that the script may know; with an interpreter that is not there it does not run.
    (tmp_path / "train.py").write_text("SIZE = 1\n")
    own = ("--interpreter", "./no-python")
    words = (command, *BEFORE_ARGUMENTS[command], *own, *(["--"] if dashes else []), "--seed", "1")
    ran = skyline(*words, "--theme" if command == "tui" else "--timeout", "9")
    told = "after the script's first argument is passed to the script; put options of Skyline before it"
    assert (told in ran.err) == (not dashes), ran.err
    assert ran.code != 0


@pytest.mark.parametrize("command", BEFORE_ARGUMENTS)
def test_quiet_leaves_the_remark_out(skyline: Run, tmp_path: Path, command: str) -> None:
    if command == "tui":
        pytest.skip("has no --quiet")
    (tmp_path / "train.py").write_text("SIZE = 1\n")
    words = (command, *BEFORE_ARGUMENTS[command], "--quiet", "--interpreter", "./no-python")
    ran = skyline(*words, "--seed", "1", "--timeout", "9")
    assert "is passed to the script" not in ran.err


@pytest.mark.parametrize(
    "words", [("whatif", "train.py"), ("plan", "train.py", "--cluster", "dgx-a100"), ("sweep", "train.py")]
)
def test_a_gpu_behind_the_arguments_does_not_run_the_script(
    skyline: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    ran = skyline(*words, "--seed", "1", "--gpu", "h100")
    assert ran.code == 2
    assert "--gpu follows the script's first argument" in ran.err
    assert f"Write skyline {words[0]} --gpu h100 SCRIPT" in ran.err
    assert "ran with" not in ran.err


@pytest.mark.parametrize(
    "words", [("train.py",), ("-m", "train"), ("sh", "train.py")], ids=["script", "module", "launcher"]
)
def test_watch_tells_of_its_options_behind_the_script(
    skyline: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text("exit\n")
    ran = skyline("watch", *words, "--stop-on", "loss_not_finite")
    assert "--stop-on after the script's name is passed to the script" in ran.err


def test_serve_tells_of_its_options_behind_the_script(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = skyline("serve", "--saved", "--no-browser", "--port", port, "train.py", "--network", "open")
    assert ran.code == 2, "the port is taken, so that nothing is served"
    assert "--network after the script's name is passed to the script" in ran.err


@pytest.mark.parametrize("words", [["--gpu", "h100"], ["--gpu=h100"], ["--epochs", "1", "--gpu"]])
def test_a_gpu_behind_the_script_does_not_train_for_real(
    skyline: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    ran = skyline("profile", "train.py", *words)
    assert ran.code == 2
    assert "--gpu follows the script's name" in ran.err
    assert "skyline profile --gpu" in ran.err
    assert "ran with" not in ran.err


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", False),
        ("print('side effects')  # side_effects", False),
        ("parser.add_argument('--side-effects')", True),
        ("class Options:\n    side_effects: str = ''", True),
        ("flags.DEFINE_string('side_effects', '', '')", True),
        ("if options.side_effects: pass", True),
    ],
)
@pytest.mark.parametrize("name", ["train.py", "options.py"])
@pytest.mark.parametrize("words", [["--side-effects", "allow"], ["--side-effects=allow"]])
def test_an_option_is_misplaced_where_neither_script_nor_neighbour_knows_it(
    tmp_path: Path, text: str, known: bool, name: str, words: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    (tmp_path / name).write_text(text)
    action = argparse.ArgumentParser().add_argument("--side-effects")
    found = misplaced(["--epochs", "1", *words], [action], script)
    assert found == ({} if known else {"--side-effects": "allow"})
    assert len(remarks(found)) == len(found)


def test_help_is_an_option_of_every_program(tmp_path: Path) -> None:
    command = argparse.ArgumentParser()
    assert misplaced(["--help"], command._actions, tmp_path / "train.py") == {}


def test_the_number_of_a_gpu_is_for_the_script() -> None:
    assert remarks({"--gpu": "0"}) != []
    assert remarks({"--gpu": "0,1"}) != []


@pytest.mark.capture
@pytest.mark.parametrize("dashes", [False, True])
def test_the_script_gets_the_option_and_the_person_a_remark(
    skyline: Run, tmp_path: Path, dashes: bool
) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    ran = skyline("profile", *(["--"] if dashes else []), "train.py", "--steps", "9")
    assert ran.code == 1
    assert "ran with --steps 9" in ran.err
    told = "--steps after the script's name is passed to the script; put options of Skyline before it"
    assert (told in ran.err) == (not dashes)
