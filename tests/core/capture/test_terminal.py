"""The standard input that a run gets: a terminal with a size and nothing to read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skyline.capture.output import EmptyTerminal
from skyline.trace.profile import Profile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

FRESH = True
"""Files that this process has open are counted, and the process to fork from takes some."""

READER = """
import os, sys
assert sys.stdin.isatty()
assert list(sys.stdin) == []
for _ in range(2):
    try:
        input("name? ")
    except EOFError:
        print("end")
assert os.read(0, 10) == b""
try:
    os.open("/dev/tty", os.O_RDWR)
except OSError:
    print("of its own")
"""
ASKS_THE_SIZE = """
import os, sys
import torch

rows, columns = (int(word) for word in os.popen("stty size", "r").read().split())
assert columns > 0
assert sys.stdin.isatty() and sys.stdin.read() == ""
try:
    input("start? ")
except EOFError:
    model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def terminal() -> Iterator[EmptyTerminal]:
    made = EmptyTerminal()
    yield made
    made.close()


def test_it_has_a_size(terminal: EmptyTerminal) -> None:
    told = subprocess.run(["stty", "size"], stdin=terminal.descriptor, capture_output=True, check=True)
    columns, lines = os.get_terminal_size(terminal.descriptor)
    assert told.stdout.split() == [str(lines).encode(), str(columns).encode()]
    assert min(columns, lines) > 0


def test_readers_find_the_end_again_and_again(terminal: EmptyTerminal) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READER],
        stdin=terminal.descriptor,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "name? end\nname? end\nof its own\n"


def test_its_end_is_no_signal_to_who_reads_from_it() -> None:
    terminal = EmptyTerminal()
    code = "import os, sys; print('here', flush=True); os.read(int(sys.argv[1]), 1); print('alive')"
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(reading)],
        stdin=terminal.descriptor,
        stdout=subprocess.PIPE,
        pass_fds=(reading,),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    terminal.close()
    os.close(reading)
    os.close(writing)
    assert process.communicate(timeout=60)[0] == b"alive\n"
    assert process.returncode == 0


def test_nothing_stays_open_and_nothing_can_be_written() -> None:
    before = _open_files()
    terminal = EmptyTerminal()
    assert not os.get_inheritable(terminal.descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(terminal.descriptor, b"x")
    terminal.close()
    assert _open_files() == before


@pytest.mark.capture
def test_a_script_that_asks_for_the_width_of_the_terminal(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    before = _open_files()
    profile = run(script(ASKS_THE_SIZE), settle_s=0.1, steps=3, recorded=1)
    assert profile.times.steps_ms
    assert _open_files() == before


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))
