"""A real profile recorded once, and the terminal in which tasks are done."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from skyline.trace import store
from skyline.trace.profile import Profile

TESTS = Path(__file__).resolve().parents[1]
RECORDED = TESTS / "data" / "linear.profile.json.gz"
WIDTH = 100
WAIT_S = 900
PICTURES = "SKYLINE_TASK_PICTURES"
SHOWN_AS = str(TESTS / "brief_measurements.py")


def _module(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"e2e_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


_chromium = _module("chromium")
chromium, browser, serve = _chromium.chromium, _chromium.browser, _chromium.serve

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


@pytest.fixture(scope="session")
def scripts() -> Any:
    """The module of small scripts for tasks."""
    return _module("task_scripts")


@pytest.fixture
def recorded_profile() -> Profile:
    return store.load(RECORDED)


@dataclass(frozen=True, slots=True)
class Ran:
    """The output and exit status of a command; ``out`` without the codes of colours."""

    code: int
    out: str
    err: str


Terminal = Callable[..., Ran]


@dataclass
class Screen:
    """A pseudo-terminal of 100 columns; ``shown`` is each command as a person types it, with its output."""

    folder: Path
    environment: Mapping[str, str]
    shown: list[tuple[str, str]] = field(default_factory=list)

    def run(self, command: Sequence[str], typed: str) -> Ran:
        """Run a command to its end, with its standard output on the terminal."""
        controller, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, WIDTH, 0, 0))
        with tempfile.TemporaryFile() as errors, os.fdopen(controller, "rb", buffering=0) as screen:
            running = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=errors,
            )
            os.close(terminal)
            watch = threading.Timer(WAIT_S, running.kill)
            watch.start()
            out = _until_hung_up(screen)
            code = running.wait()
            watch.cancel()
            errors.seek(0)
            err = errors.read().decode()
        self.shown.append((typed, out))
        return Ran(code, _CODES.sub("", out).replace("\r\n", "\n"), err)


def _until_hung_up(screen: IO[bytes]) -> str:
    parts: list[bytes] = []
    try:
        while part := screen.read(1 << 16):
            parts.append(part)
    except OSError:
        pass  # Linux reports the end of the last program as an error
    return b"".join(parts).decode()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a person's terminal, with a cache and data of its own. Interpreters in it import faster."""
    return {
        **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
        "PYTHONPATH": str(TESTS / "preloaded"),
        "COLUMNS": str(WIDTH),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder, which the commands run in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def screen(project: Path, environment: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Screen]:
    """The terminal of a task; afterwards it is drawn where pictures are wanted."""
    found = Screen(project, environment)
    yield found
    folder = os.environ.get(PICTURES)
    if folder and found.shown:
        name = request.node.name.removeprefix("test_").replace("_", "-")
        # The folder is one of the tests: a person's is shorter, and another one.
        shown = [(typed, out.replace(f"{project}/", "")) for typed, out in found.shown]
        picture = _drawing().terminal_picture(shown, name.replace("-", " "), WIDTH)
        Path(folder, f"task-{name}.svg").write_text(picture, encoding="utf-8")


@pytest.fixture
def terminal(screen: Screen) -> Terminal:
    """Runs ``skyline`` with these words and waits for its end; ``hidden`` words are left out of the picture."""

    def run(*words: str, hidden: Sequence[str] = ()) -> Ran:
        first, *rest = words
        typed = " ".join(("skyline", first, *rest))
        ran = screen.run((sys.executable, SHOWN_AS, first, *hidden, *rest), typed)
        assert "Traceback" not in ran.err, ran.err
        return ran

    return run


def _drawing() -> Any:
    path = TESTS.parent / "docs" / "terminal_picture.py"
    spec = importlib.util.spec_from_file_location("terminal_picture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
