"""The whole program in a real terminal: keys and mouse go in as bytes, the screen comes out as bytes."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

DATA = Path(__file__).resolve().parent.parent / "data"
COLUMNS, ROWS = 120, 40
WAIT_S = 60.0


CONTROL = r"\x1b(?:\[(?P<given>[0-9;?<>=]*)[ -/]*(?P<what>[@-~])|[\]P^_].*?(?:\x07|\x1b\\)|[^\[\]P^_])"
PIECE = re.compile(CONTROL + "|(?P<text>[^\x1b])", re.DOTALL)


class Picture:
    """The content of a terminal after the text written to it: places and text, no colours."""

    def __init__(self) -> None:
        self.cells = [[" "] * COLUMNS for _ in range(ROWS)]
        self._row, self._column = 0, 0
        self._rest = ""

    def feed(self, written: str) -> None:
        """Draw more of it; a sequence that is cut off waits for its end."""
        written = self._rest + written
        done = 0
        for piece in PIECE.finditer(written):
            if piece.start() != done:
                break
            done = piece.end()
            if piece["text"] is not None:
                self._put(piece["text"])
            elif piece["what"] in ("H", "f"):
                row, _, column = piece["given"].partition(";")
                self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
            elif piece["what"] == "J":
                self.cells = [[" "] * COLUMNS for _ in range(ROWS)]
        self._rest = written[done:]

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._row = min(self._row + 1, ROWS - 1)
        elif char >= " ":
            if self._row < ROWS and self._column < COLUMNS:
                self.cells[self._row][self._column] = char
            self._column += 1

    @property
    def rows(self) -> list[str]:
        return ["".join(row) for row in self.cells]

    def row_of(self, words: str) -> int:
        """The only row that begins with these words, from 0."""
        (found,) = (number for number, row in enumerate(self.rows) if row.startswith(f" {words} "))
        return found


class Terminal:
    """A child on a pseudo-terminal, and everything it wrote."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.written = ""
        self.picture = Picture()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            # Before the program looks, not while it starts.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(folder)
            environment = {
                **os.environ,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "TEXTUAL_ANIMATIONS": "none",
                # Whoever runs the tests may have set these, and they go before what the terminal says.
                "COLUMNS": str(COLUMNS),
                "LINES": str(ROWS),
            }
            os.execvpe(sys.executable, [sys.executable, *arguments], environment)

    def send(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def until(self, *words: str) -> str:
        """The output since the last call, once it contains all these words."""
        deadline = time.monotonic() + WAIT_S
        while not all(word in _plain(self.written) for word in words):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {words} in:\n{_plain(self.written)[-4000:]}")
            if select.select([self._end], [], [], 0.2)[0]:
                self._read()
        seen, self.written = self.written, ""
        return seen

    def until_shown(self, true: Callable[[Picture], bool], what: str, wait_s: float = WAIT_S) -> None:
        """Read until the screen is so, and has nothing more to say for the moment."""
        deadline = time.monotonic() + wait_s
        while not true(self.picture) or select.select([self._end], [], [], 0.15)[0]:
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what} on:\n" + "\n".join(self.picture.rows))
            if select.select([self._end], [], [], 0.1)[0]:
                self._read()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            more = self._decoder.decode(os.read(self._end, 1 << 16))
            self.written += more
            self.picture.feed(more)

    def mouse(self, button: int, column: int, row: int, *, up: bool = False) -> None:
        """An event as a terminal reports it: column and row from 0 here, from 1 on the wire."""
        self.send(f"\x1b[<{button};{column + 1};{row + 1}{'m' if up else 'M'}")

    def exit_code(self) -> int:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self._end], [], [], 0.1)[0]:
                    os.read(self._end, 1 << 16)
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            if gone:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the program did not end")

    def hang_up(self) -> None:
        """Close the terminal under the program."""
        os.close(self._end)
        self._end = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)


def _plain(text: str) -> str:
    """Without control sequences: the words in the order in which they were written."""
    return re.sub(r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|[\]P^_].*?(\x07|\x1b\\)|.)", "", text)


@pytest.fixture
def hung_up_ignored() -> Iterator[None]:
    """Programs started meanwhile ignore the end of their terminal, as under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    saved = tmp_path / "linear.profile.json.gz"
    shutil.copy(DATA / "linear.profile.json.gz", saved)
    opened = Terminal(["-P", "-m", "skyline", "tui", saved.name] if sys.version_info >= (3, 11)
                      else ["-m", "skyline", "tui", saved.name], tmp_path)  # fmt: skip
    yield opened
    opened.close()


def test_a_saved_profile_by_keys_and_mouse(terminal: Terminal) -> None:
    terminal.until("recording", "per iteration", "What-ifs")
    terminal.send("2")
    terminal.until("[2 Lines]", "t: modules")
    terminal.send("3")
    terminal.until("measured, while recorded", "simulated", "critical")
    # A click on the first title, as a terminal reports it: button, column and row, from 1.
    terminal.send("\x1b[<0;8;3M\x1b[<0;8;3m")
    terminal.until("[1 Overview]")
    terminal.send("?")
    terminal.until("Keys and signs")
    terminal.send("\x1b")
    time.sleep(0.5)
    terminal.send("q")
    assert terminal.exit_code() == 0


def test_it_ends_with_its_terminal_though_its_parent_ignores_the_hang_up(
    hung_up_ignored: None, terminal: Terminal
) -> None:
    terminal.until("recording", "per iteration", "What-ifs")
    terminal.hang_up()
    assert terminal.exit_code() == -signal.SIGHUP


PRESS, MOVE = 0, 32
HANDLE = "┃"
POSITIONS = 10


def _size(picture: Picture) -> int:
    found = re.search(r"Batch size (?:\d+ → )?(\d+)", picture.rows[picture.row_of("Batch size")])
    assert found is not None
    return int(found[1])


def test_the_bars_are_dragged_by_the_bytes_of_a_mouse(terminal: Terminal) -> None:
    terminal.until("recording", "per iteration", "What-ifs")
    terminal.until_shown(lambda picture: any("Batch size " in row for row in picture.rows), "the bars")
    recorded = _size(terminal.picture)
    for bar in ("Throughput", "Memory"):
        _drag(terminal, bar)
        terminal.send("\x1b")
        terminal.until_shown(lambda shown: _size(shown) == recorded, "the size of the profile")
    terminal.send("q")
    assert terminal.exit_code() == 0


def _drag(terminal: Terminal, bar: str) -> None:
    picture = terminal.picture
    row = picture.row_of(bar)
    left, right = picture.rows[row].index("▕") + 1, picture.rows[row].index("▏") - 1
    curve = sum("▇" in line for line in picture.rows)
    assert curve >= 2
    columns = [left + round(step * (right - left) / (POSITIONS - 1)) for step in range(POSITIONS)]
    sizes, figures = [], []
    for step, column in enumerate(columns):
        terminal.mouse(PRESS if step == 0 else MOVE, column, row)
        terminal.until_shown(
            lambda shown, at=column: shown.rows[row][at] == HANDLE, f"the handle at {column}"
        )
        sizes.append(_size(picture))
        figures.append(picture.rows[row][right + 2 :])
        assert picture.rows[row].count(HANDLE) == 1
        assert sum("▇" in line for line in picture.rows) == curve, "the curve is there at every step"
    assert sizes == sorted(sizes)
    assert len(set(sizes)) >= 5, sizes
    assert len(set(figures)) >= 5, figures
    terminal.mouse(PRESS, columns[6], row, up=True)
    terminal.until_shown(lambda shown: _size(shown) == sizes[6], "the size where it was let go")
    assert abs(picture.rows[row].index(HANDLE) - columns[6]) <= 3, "the handle rests where that size is"


BRIEF = Path(__file__).resolve().parents[1] / "brief_measurements.py"
SCRIPTS = Path(__file__).resolve().parents[2] / "extension" / "e2e" / "scripts"
MEASURED_S = 420.0


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """The terminal UI on a script that it runs."""
    monkeypatch.setenv("PYTHONPATH", str(BRIEF.parent / "preloaded"))
    if not SCRIPTS.exists():
        pytest.skip("the extension is not part of this source tree")
    shutil.copytree(SCRIPTS / "dataclass", tmp_path / "dataclass")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    opened = Terminal([str(BRIEF), "tui", "train.py"], tmp_path / "dataclass")
    yield opened
    opened.close()


@pytest.mark.capture
@pytest.mark.fresh
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_drag_writes_the_number_shown_into_the_file_and_u_takes_it_back(
    live: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "dataclass" / "train.py"
    before = file.read_text()
    assert "Settings(batch_size=16)" in before

    def measured(picture: Picture) -> bool:
        rows = "\n".join(picture.rows)
        bar = any(row.startswith(" Throughput ") and "▕" in row for row in picture.rows)
        return bar and "Batch size 16" in rows and "cancels" not in rows

    live.until_shown(measured, "a measured curve", MEASURED_S)
    picture = live.picture
    row = picture.row_of("Throughput")
    left, right = picture.rows[row].index("▕") + 1, picture.rows[row].index("▏") - 1
    start, end = left + (right - left) // 5, left + (right - left) * 4 // 5
    live.mouse(PRESS, start, row)
    for column in (start + (end - start) // 2, end):
        live.mouse(MOVE, column, row)
        live.until_shown(lambda shown, at=column: shown.rows[row][at] == HANDLE, f"the handle at {column}")
    shown = _size(picture)
    assert shown > 16
    assert file.read_text() == before, "nothing is written while the bar is held"
    live.mouse(PRESS, end, row, up=True)
    live.until_shown(
        lambda now: any("Trying a change writes it" in each for each in now.rows), "the question"
    )
    assert file.read_text() == before, "the first write asks"
    live.send("\r")
    after = before.replace("Settings(batch_size=16)", f"Settings(batch_size={shown})")
    live.until_shown(lambda _: file.read_text() != before, "the rewritten file")
    assert file.read_text() == after
    live.send("u")
    live.until_shown(lambda _: file.read_text() == before, "the file as it was")
    live.send("q")
    assert live.exit_code() == 0
