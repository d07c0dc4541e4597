from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from skyline.cli import doctor
from skyline.cli.main import COMMANDS, main
from skyline.errors import Cancelled, ScriptFailed, UsageError

Run = Callable[..., object]

HEAVY = {"torch", "rich", "msgspec", "jinja2", "pygments", "libcst", "psutil", "textual", "pygls", "numpy"}


def imported(*arguments: str) -> set[str]:
    """The top-level modules that a command imports."""
    start = "import sys; from skyline.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", start, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_help_imports_nothing_heavy() -> None:
    modules = imported("--help")
    assert "skyline" in modules
    assert not modules & HEAVY


@pytest.mark.parametrize("command", ["profile", "ledger", "show", "diff", "export", "doctor"])
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    assert not imported(command, "--help") & HEAVY


def test_help_names_every_command(skyline: Run) -> None:
    ran = skyline("--help")
    assert ran.code == 0
    assert ran.err == ""
    assert all(f"  {name}" in ran.out for name in COMMANDS)


def test_version(skyline: Run) -> None:
    assert skyline("--version").out.startswith("skyline 0.")


def test_no_command_shows_the_help_and_is_an_error(skyline: Run) -> None:
    ran = skyline()
    assert ran.code == 2
    assert ran.out == ""
    assert "commands:" in ran.err


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("profle", "Did you mean: skyline profile"),
        ("train.py", "skyline profile train.py"),
        ("zzz", "The commands are"),
    ],
)
def test_an_unknown_command_is_put_right(skyline: Run, word: str, hint: str) -> None:
    ran = skyline(word)
    assert ran.code == 2
    assert hint in ran.err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no", hint="try\nthis"), 2, "skyline: no\n  try\n  this\n"),
        (UsageError("no", file="a.py", line=3), 2, "skyline: a.py:3: no\n"),
        (ScriptFailed("it failed", traceback="Traceback: theirs\n"), 1, "Traceback: theirs\n"),
        (Cancelled(""), 130, "skyline: interrupted\n"),
        (KeyboardInterrupt(), 130, "skyline: interrupted\n"),
    ],
)
def test_what_goes_wrong_is_said_on_stderr_with_its_code(
    skyline: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(doctor, "run", fail)
    ran = skyline("doctor")
    assert (ran.code, ran.out, ran.err) == (code, "", said)


def test_a_reader_that_goes_away_is_no_error(saved: object) -> None:
    command = f"{sys.executable} -m skyline show {saved} --format html | head -c 10"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_public_api_is_lazy_and_complete() -> None:
    import skyline

    for name in skyline.__all__:
        assert getattr(skyline, name) is not None
    assert set(skyline.__all__) <= set(dir(skyline))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = skyline.nothing


def test_main_takes_the_process_arguments(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["skyline", "--version"])
    assert main() == 0
    assert capfd.readouterr().out.startswith("skyline ")


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["profile"],
        ["whatif"],
        ["apply"],
        ["verify"],
        ["ledger"],
        ["show"],
        ["diff"],
        ["export"],
        ["gpus"],
        ["devices"],
        ["doctor"],
    ],
)
def test_help_fits_eighty_columns(skyline: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(len(line) for line in skyline(*command, "--help").out.splitlines()) <= 80


def test_a_long_hint_ends_its_lines_between_words_on_a_terminal(
    skyline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "Looked for the step of an optimizer in every module of the script, and for a backward pass beside it."

    def fail(arguments: object) -> int:
        raise UsageError("Nothing was found", hint=hint)

    monkeypatch.setattr(doctor, "run", fail)
    monkeypatch.setenv("COLUMNS", "60")
    assert f"  {hint}" in skyline("doctor").err.splitlines()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    lines = skyline("doctor").err.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines[1:]) == hint
