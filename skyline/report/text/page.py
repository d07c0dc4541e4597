"""The sheet that a report is written on: one console with its width, its characters and its colours."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from skyline.report.place import middle, place
from skyline.trace.phase import Phase

PHASE_STYLES = {
    Phase.DATA: "yellow",
    Phase.FORWARD: "blue",
    Phase.BACKWARD: "magenta",
    Phase.OPTIMIZER: "green",
    Phase.COMMUNICATION: "cyan",
    Phase.OTHER: "bright_black",
}
INDENT = 1
GUTTER = 2
_GLUED = re.compile(r"(?<=\d) (?=(?:[µm]?s|[kMGT]?B|samples/s)\b|%)")
"""The space between a number and its unit, where no line may end."""
_GLUE = "\ue000"
"""Stands for that space while text is wrapped: any white space would be a place to break."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: numbers stand right and are never shortened."""

    title: str
    justify: Literal["left", "right"] = "right"


@dataclass(frozen=True, slots=True)
class Page:
    """Where to write, and the folder from which paths are shown."""

    console: Console
    glyphs: Glyphs
    base: Path | None

    @classmethod
    def on(cls, console: Console, base: Path | None) -> Page:
        """A page on ``console``, with the characters it can show."""
        return cls(console, glyphs_for(console), base)

    @property
    def width(self) -> int:
        """Cells between the indent and the right edge."""
        return max(40, self.console.width) - 2 * INDENT

    def text(self, text: str, style: str = "") -> Text:
        """One piece of text, without any markup read into it."""
        return Text(self.glyphs.text(text), style=style, no_wrap=True)

    def shortened(self, text: str, width: int, style: str = "") -> Text:
        """A name in at most ``width`` cells, its middle left out."""
        text = short = self.glyphs.text(text)
        letters = width
        # Some scripts take two cells a letter.
        while cell_len(short) > width and letters > 0:
            short = middle(text, letters, self.glyphs.ellipsis)
            letters -= 1
        return self.text(short, style)

    def cut(self, text: str, width: int, style: str = "") -> Text:
        """Source text in at most ``width`` cells, its end left out."""
        text = self.glyphs.text(text)
        if cell_len(text) > width:
            ellipsis = self.glyphs.ellipsis
            text = set_cell_size(text, max(0, width - len(ellipsis))).rstrip() + ellipsis
        return self.text(text, style)

    def place(self, file: str, line: int, width: int) -> Text:
        """``model.py:88``, which terminals that can will open on a click; folders are dropped first."""
        whole = self.glyphs.text(place(file, line, self.base))
        name = whole.rpartition("/")[2]
        if len(whole) > width and "/" in whole and len(name) + len(self.glyphs.ellipsis) < width:
            folder = middle(whole, width, self.glyphs.ellipsis + "/", tail=len(name))
            # A head of one or two letters names nothing: better none at all.
            whole = folder if len(folder) - len(name) > 6 else f"{self.glyphs.ellipsis}/{name}"
        text = self.shortened(whole, width)
        if self.console.is_terminal and file:
            text.stylize(f"link file://{file}")
        return text

    def line(self, *parts: Text) -> None:
        """One line, indented; longer than the page only where a number would otherwise be lost."""
        self.console.print(Text(" " * INDENT).append_text(Text.assemble(*parts)), soft_wrap=True)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def title(self, title: str, aside: str = "") -> None:
        """The heading of a section, with the meaning of its numbers."""
        heading = Text(" " * INDENT).append(self.glyphs.text(title), style="bold")
        if not aside:
            self.console.print(heading, soft_wrap=True)
        elif len(title) + 3 + len(self.glyphs.text(aside)) <= self.width:
            self.console.print(
                heading.append("   ").append(self.glyphs.text(aside), style="dim"), soft_wrap=True
            )
        else:
            self.console.print(heading, soft_wrap=True)
            self.paragraph(aside, style="dim")

    def paragraph(self, text: str, *, style: str = "", bullet: str = "", indent: int = INDENT) -> None:
        """Running text, wrapped at the page's width; a bullet hangs before the first line."""
        lead = Text(" " * indent + (f"{bullet} " if bullet else ""))
        self.hanging(lead, text, style)

    def remarks(self, title: str, remarks: Sequence[str]) -> None:
        """A section of a paragraph each; nothing at all where there are none."""
        if remarks:
            self.blank()
            self.title(title)
        for remark in remarks:
            self.paragraph(remark, bullet=self.glyphs.bullet)

    def hanging(self, lead: Text, text: str, style: str = "") -> None:
        """Running text behind ``lead``, its further lines set in under the first."""
        room = max(20, self.console.width - lead.cell_len - INDENT)
        body = Text(_GLUED.sub(_GLUE, self.glyphs.text(text)), style=style)
        for index, wrapped in enumerate(body.wrap(self.console, room)):
            wrapped.rstrip()
            wrapped.plain = wrapped.plain.replace(_GLUE, " ")
            start = lead if index == 0 else Text(" " * lead.cell_len)
            self.console.print(Text.assemble(start, wrapped), soft_wrap=True)

    def table(
        self,
        columns: tuple[Column, ...],
        rows: list[tuple[Text, ...]],
        *,
        sums: int = 0,
        under: Sequence[Sequence[Text]] = (),
    ) -> None:
        """Rows under their titles, columns as wide as what they hold; the last ``sums`` rows set apart.

        ``under`` has lines of text to stand under each of the first rows.
        """
        widths = [
            column_width(column.title, [row[index] for row in rows]) for index, column in enumerate(columns)
        ]
        if any(column.title for column in columns):
            self._row(columns, widths, tuple(self.text(column.title, "dim") for column in columns))
        for index, row in enumerate(rows):
            if sums and index == len(rows) - sums:
                rule = tuple(Text(self.glyphs.rule * width, style="dim") for width in widths)
                self._row(columns, widths, rule)
            self._row(columns, widths, row)
            for text in under[index] if index < len(under) else ():
                self.line(text)

    def _row(self, columns: tuple[Column, ...], widths: list[int], cells: tuple[Text, ...]) -> None:
        line = Text(" " * INDENT)
        for index, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
            space = Text(" " * (width - cell.cell_len))
            line.append_text(Text(" " * GUTTER) if index else Text())
            line.append_text(
                Text.assemble(space, cell) if column.justify == "right" else Text.assemble(cell, space)
            )
        line.rstrip()
        self.console.print(line, soft_wrap=True)


def column_width(title: str, cells: list[Text]) -> int:
    """The cells that a column needs for its title and everything in it."""
    return max(len(title), *(cell.cell_len for cell in cells))


_PLAIN = str.maketrans({"±": "+/-", "·": "-", "µ": "u", "…": "...", "→": "->", "×": "x", "≥": ">=", "–": "-"})


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of drawing characters. ``partial`` are eighths of a cell, thinnest first."""

    full: str
    partial: str
    sliver: str
    hollow: str
    mark: str
    bullet: str
    rule: str
    ellipsis: str
    plain: bool

    def text(self, text: str) -> str:
        """``text`` in characters this terminal has."""
        if not self.plain:
            return text
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")

    def bar(self, share: float, width: int) -> str:
        """A bar of ``share`` of ``width`` cells; anything above zero leaves at least a sliver."""
        eighths = round(max(0.0, min(1.0, share)) * width * 8)
        if not self.partial:
            cells = round(eighths / 8)
            return self.full * cells or (self.sliver if share > 0 else "")
        whole, rest = divmod(eighths, 8)
        bar = self.full * whole + (self.partial[rest - 1] if rest else "")
        return bar or (self.sliver if share > 0 else "")


UNICODE = Glyphs("█", "▏▎▍▌▋▊▉", "▏", "░", "◀", "•", "─", "…", plain=False)
ASCII = Glyphs("#", "", "|", "-", "<", "*", "-", "...", plain=True)


def glyphs_for(console: Console) -> Glyphs:
    """Plain characters for a dumb terminal or an output that is not encoded in Unicode."""
    plain = console.options.ascii_only or os.environ.get("TERM", "") in {"dumb", "unknown"}
    return ASCII if plain else UNICODE
