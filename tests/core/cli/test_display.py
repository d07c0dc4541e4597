"""The display of a capture under way: its progress, its figures so far, and the output of its script."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from skyline.capture.request import Progress
from skyline.cli.display import Display
from skyline.cli.live_board import LiveBoard
from skyline.report.document import Section, document, said
from skyline.trace.profile import Profile

_COMMANDS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        """Everything written so far, without colours and cursor movements."""
        return _COMMANDS.sub("", self.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    return Terminal()


def test_figures_stand_above_the_bar(terminal: Terminal, profile: Profile) -> None:
    with Display(terminal, quiet=False) as display:
        display.progress(Progress("measure", "timing more iterations", 0.5))
        display.show(profile)
        drawn = terminal.text()
        assert (
            drawn.index("per iteration") < drawn.rindex("What-ifs") < drawn.rindex("timing more iterations")
        )
        display.output("epoch 1\nepo")
        assert "epoch 1\n" in terminal.text()
        assert "epo\n" not in terminal.text(), "the rest of the line is still to come"
    assert "epo\n" in terminal.text()


def test_later_figures_take_the_place_of_earlier_ones(terminal: Terminal, profile: Profile) -> None:
    slower = replace(profile, times=replace(profile.times, steps_ms=(900.0,) * len(profile.times.steps_ms)))
    with Display(terminal, quiet=False) as display:
        display.show(profile)
        before = len(terminal.text())
        display.show(slower)
        drawn = terminal.text()[before:]
        assert "900" in drawn
        assert "What-ifs" in drawn[: drawn.index("900") + 2000], "the table does not vanish in between"


def test_a_terminal_with_few_rows_keeps_the_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "8")
    board = LiveBoard(terminal)
    board.advance_to("try", "trying other threads", 0.9)
    board.show(document(Section(tuple(said(*(f"row {number}" for number in range(30)))))))
    lines = board.console.render_lines(board.get_renderable())
    texts = ["".join(segment.text for segment in line) for line in lines]
    assert len(texts) <= 8
    assert "row 0" in "".join(texts)
    assert "trying other threads" in texts[-1]


def test_elsewhere_the_first_headline_is_a_remark(
    capfd: pytest.CaptureFixture[str], profile: Profile
) -> None:
    with Display(quiet=False) as display:
        display.show(profile)
        display.show(profile)
    told = capfd.readouterr().err
    assert told.count("per iteration") == 1
    assert "What-ifs" not in told


def test_a_quiet_display_says_nothing(terminal: Terminal, profile: Profile) -> None:
    with Display(terminal, quiet=True) as display:
        display.progress(Progress("measure", "timing more iterations", 0.5))
        display.show(profile)
    assert not terminal.text()
