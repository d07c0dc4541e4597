"""A command of the product during a fault: how it ended, and if it ended with a message."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import skyline.cli.config
import skyline.cli.ledger
import skyline.cli.show
import skyline.report.pages.profile  # noqa: F401
from skyline.analysis.analyse import analyse
from skyline.cli.main import main
from skyline.errors import ExitCode
from skyline.report.build import profile_report
from skyline.trace import store

WORDS = frozenset(map(int, ExitCode))
"""Exit codes of a command that ends with a message."""


class Lost(Exception):
    """A fault left something behind, changed something, or removed something."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended, with its exit code and its output."""

    code: int
    output: str
    errors: str

    @property
    def last_line(self) -> str:
        """The last line of output for the user."""
        lines = [line.strip() for line in (self.errors + self.output).splitlines() if line.strip()]
        return lines[-1][:110] if lines else "(nothing)"


def told(ended: Ended, codes: Collection[int] = WORDS) -> Ended:
    """Raise Lost for another exit code, or if the command itself ended with a traceback, not a message."""
    if ended.code not in codes:
        raise Lost(f"exit code {ended.code}: {ended.last_line}")
    if "Traceback (most recent call last)" in ended.errors and "skyline/capture/child" not in ended.errors:
        # A traceback of the script itself is part of the report.
        last = ended.errors.rpartition("Traceback (most recent call last)")[2]
        if "/skyline/" in last and "train.py" not in last:
            raise Lost(f"a traceback instead of a message: {ended.last_line}")
    return ended


def warm_up(profile: Path) -> None:
    """Import and compile everything that is needed to show a profile, so that every fork has it."""
    profile_report(analyse(store.load(profile)))


def run_forked(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], longest_s: float
) -> Ended:
    """Run the product's command in a fork, which saves the start of an interpreter. This process has no threads."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = os.fork()
        if process == 0:
            _become(arguments, folder, environment, output.fileno(), errors.fileno())
        deadline = time.monotonic() + longest_s
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                raise Lost(f"{arguments[0]} did not end within {longest_s:g} s")
            time.sleep(0.01)
        texts: list[str] = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return Ended(os.waitstatus_to_exitcode(ended[1]), *texts)


def _become(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: int, errors: int
) -> None:
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        code = main(list(arguments))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
