"""A file of the user's code with the cost of each line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.highlight import highlight
from textual.widgets import Static

from skyline import units
from skyline.errors import SkylineError
from skyline.report.schema import LineReport, ProfileReport
from skyline.source.cells import cell_line, is_notebook
from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_tui.figures import MUTED

GUTTER = 9
FLASH_S = 2.5
"""Duration, in s, of the mark on rewritten lines."""
_HEAT = " ▏▎▍▌▋▊▉█"
_RECORDINGS = (".json", ".gz")
"""Extensions of traces and saved profiles, which are not source files."""


class Source(VerticalScroll):
    """Shows a line in its file, read from disk at that moment."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="source.down"),
        Binding("k", "scroll_up", "Up", show=False, id="source.up"),
    ]

    def __init__(self, source_id: str = "source") -> None:
        super().__init__(id=source_id, classes="panel source")
        self.border_title = "Source (o edits)"
        self._costs: dict[tuple[str, int], float] = {}
        self._profiled: dict[str, str] = {}
        """The files at the time of their profile, from which costs follow moved lines."""
        self._flashing: frozenset[int] = frozenset()
        self.file: str = ""
        self.line: int = 0

    @property
    def place(self) -> tuple[str, int] | None:
        """The visible file and line."""
        return (self.file, self.line) if self.file else None

    def compose(self) -> ComposeResult:
        yield Static("Enter on a line shows it here", classes="source-text")

    def show(self, profile: ProfileReport) -> None:
        """Show a new profile; the file stays, or becomes the one with the costliest line."""
        self._costs = {}
        for line in profile.lines:
            key = (line.file, line.line)
            self._costs[key] = self._costs.get(key, 0.0) + line.self_ms
        self._profiled = _profiled(profile.lines)
        if not self.file:
            first = next((line for line in profile.lines if line.line), None)
            self.file, self.line = (first.file, first.line) if first else (profile.script, 1)
        self.reload()

    def open(self, line: LineReport) -> None:
        """Go to a line of the profile."""
        self.open_at(line.file, line.line)

    def open_at(self, file: str, line: int) -> None:
        """Go to a line."""
        self.file, self.line = file, line
        self.reload()

    def flash(self, file: str, lines: Collection[int]) -> None:
        """Highlight rewritten lines for a moment, scroll them into view, and move the cursor to the first."""
        if not lines:
            return
        self.file, self.line, self._flashing = file, min(lines), frozenset(lines)
        self.reload()
        self.set_timer(FLASH_S, self._flashed)

    def on_resize(self) -> None:
        """Scroll a file that was opened while the pane was hidden."""
        self._scroll_to_line()

    def _flashed(self) -> None:
        self._flashing = frozenset()
        self.reload()

    def reload(self) -> None:
        """Read the file again."""
        block = self.query_one(".source-text", Static)
        name = Path(self.file).name
        self.border_subtitle = Content(f"{name}:{self.line}")
        if self.file.endswith(_RECORDINGS):
            block.update(
                Content.styled(
                    "this file is a recording: Enter on a line shows its source if the recording names it",
                    "$text-muted",
                )
            )
            return
        try:
            source = SourceText.read(self.file)
        except SkylineError as error:
            block.update(Content.styled(str(error), "$text-warning"))
            return
        if is_notebook(self.file) and (cell := cell_line(source.text, self.line)):
            self.border_subtitle = Content(f"{name} {cell}")
        block.update(self._written(source))
        self.call_after_refresh(self._scroll_to_line)

    def _written(self, source: SourceText) -> Content:
        text = "\n".join(source.line(number) for number in range(1, source.line_count + 1))
        code = highlight(text, language="python").split("\n", allow_blank=True)
        moved = line_map(self._profiled.get(self.file, source.text), source.text)
        costs = {
            at: cost
            for (file, line), cost in self._costs.items()
            if file == self.file and (at := moved(line)) is not None
        }
        scale = units.time_scale(costs.values())
        most = max(self._costs.values(), default=0.0) or 1.0
        rows: list[Content] = []
        for number, line in enumerate(code[: source.line_count], start=1):
            cost = costs.get(number, 0.0)
            # Values that round to zero are left blank.
            spent = scale.text(cost) if scale.number(cost).strip("0.") else ""
            here, new = number == self.line, number in self._flashing
            mark = "±" if new else "▶" if here else " "
            gutter = Content.assemble(
                (f"{spent:>{GUTTER}}", "bold" if here else MUTED),
                (_heat(cost / most), "$accent"),
                (f"{mark}{number:>4} ", "bold" if here or new else MUTED),
            )
            row = gutter + line
            rows.append(
                row.stylize("bold on $warning 40%")
                if new
                else row.stylize("on $primary-muted")
                if here
                else row
            )
        return Content("\n").join(rows)

    def _scroll_to_line(self) -> None:
        self.scroll_to(y=max(self.line - 1 - self.size.height // 2, 0), animate=False)


def _profiled(lines: Iterable[LineReport]) -> dict[str, str]:
    """The current files, without those that changed since they were measured."""
    found: dict[str, str] = {}
    for file, known in groupby(sorted(lines, key=lambda line: line.file), key=lambda line: line.file):
        try:
            text = SourceText.read(file)
        except SkylineError:
            continue
        placed = [line for line in known if 0 < line.line <= text.line_count]
        if all(text.line(line.line).strip() == line.source.strip() for line in placed):
            found[file] = text.text
    return found


def _heat(share: float) -> str:
    """One cell, filled in proportion to the cost of the line; never empty for a significant cost."""
    return _HEAT[0] if share < 0.004 else _HEAT[min(max(round(share * 8), 1), 8)]
