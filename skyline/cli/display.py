"""The progress of a capture, its figures so far, and the output of its script, on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from skyline.cli.streams import say
from skyline.foreign_text import cleaned

if TYPE_CHECKING:
    from skyline.capture.request import OutputCallback, Progress, ProgressCallback
    from skyline.cli.live_board import LiveBoard
    from skyline.trace.profile import Profile


class Display:
    """A live board on a terminal; one line per stage elsewhere."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool) -> None:
        self._quiet = quiet
        self._stage = ""
        self._stream = stream or sys.stderr
        self._board: LiveBoard | None = None
        self._shown = False
        """True once figures were shown."""
        self._lock = threading.Lock()
        self._rest = ""

    def __enter__(self) -> Display:
        if not self._quiet and self._stream.isatty():
            from skyline.cli.live_board import LiveBoard

            self._board = LiveBoard(self._stream)
            self._board.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._board is not None and self._rest:
                self._board.write(self._rest)
                self._rest = ""
        if self._board is not None:
            self._board.stop()

    @property
    def progress(self) -> ProgressCallback:
        """The callback for progress."""
        return self._on_progress

    def show(self, profile: Profile) -> None:
        """Show the figures of a profile that is still being measured.

        On a terminal, its headline, verdict and what-ifs appear above the bar until the next profile replaces them.
        Elsewhere, the first headline is printed as a remark.
        """
        shown, self._shown = self._shown, True
        if self._board is not None:
            _refine(self._board, profile, shown=shown)
        elif not self._quiet and not shown:
            self.tell(first_lines(profile))

    def tell(self, lines: Sequence[str]) -> None:
        """Print lines above the board, or as remarks if there is no board."""
        for line in lines:
            if self._board is not None:
                self._board.write(cleaned(line))
            else:
                say(f"skyline: {line}")

    @property
    def output(self) -> OutputCallback:
        """The callback for the script's output, which arrives in pieces."""
        return self._on_output

    def _on_progress(self, progress: Progress) -> None:
        if self._board is not None:
            self._board.advance_to(progress.stage, cleaned(progress.message), progress.fraction)
        elif not self._quiet and progress.stage != self._stage:
            say(f"skyline: {progress.stage}: {progress.message}" if progress.message else progress.stage)
        self._stage = progress.stage

    def _on_output(self, text: str) -> None:
        with self._lock:
            if self._board is None:
                self._stream.write(text)
                self._stream.flush()
                return
            # The board occupies the last lines of the terminal, so only whole lines can be printed above it.
            whole, newline, self._rest = (self._rest + text).rpartition("\n")
            if newline:
                self._board.write(whole)


def _refine(board: LiveBoard, profile: Profile, *, shown: bool) -> None:
    from skyline.analysis.analyse import analyse
    from skyline.report.build import profile_report, whatif_report
    from skyline.report.pages.profile import figures_page

    analysis = analyse(profile)
    report = profile_report(analysis)
    if not shown:
        # Show the figures first, because answering every what-if takes longer than everything before.
        board.show(figures_page(report, None, Path.cwd()))
    board.show(figures_page(report, whatif_report(analysis), Path.cwd()))


def first_lines(profile: Profile) -> tuple[str, ...]:
    """The headline and the cause that bounds the step, from a profile that has no trials yet."""
    from skyline.analysis.analyse import analyse
    from skyline.analysis.verdict import verdict
    from skyline.report.basis import headline
    from skyline.report.build import head_report
    from skyline.report.cells import with_cells

    analysis = analyse(profile)
    return headline(head_report(analysis)), with_cells(verdict(analysis.baseline, ()).bound, profile)
