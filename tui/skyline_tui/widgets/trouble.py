"""The error panel: the reason why there are no newer numbers, with place and last lines."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from skyline.report.cells import told_in_cells
from skyline.source.cells import is_notebook
from skyline_tui.figures import MUTED

TAIL_LINES = 6


class Trouble(Static):
    """Hidden without an error. The last good profile stays on the screen."""

    def __init__(self) -> None:
        super().__init__(id="trouble")
        self.border_title = "! The last run failed"
        self.display = False
        self.message = ""

    def show(self, message: str, *, script: Path, line: int | None, has_profile: bool) -> None:
        """Show an error. A long error is cut to its end, where a traceback gives the cause."""
        notebook = is_notebook(script)
        # Messages name the place in a notebook by its cell.
        message = told_in_cells(message) if notebook else message
        self.message = message
        lines = message.strip().splitlines() or ["The server gave no reason."]
        shown = lines if len(lines) <= TAIL_LINES else [lines[0], "…", *lines[-TAIL_LINES + 2 :]]
        where = Content.styled(f"{script.name}:{line}  ", "bold") if line and not notebook else Content("")
        text = where + Content("\n".join(shown))
        kept = "The figures shown are from the last successful run." if has_profile else ""
        todo = Content.styled(f"{kept} Press r to measure again, o to open the editor".strip(), MUTED)
        self.update(Content("\n").join([text, todo]))
        self.display = True

    def clear(self) -> None:
        """Hide the panel."""
        self.message = ""
        self.display = False
