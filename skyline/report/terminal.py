"""Documents on the terminal, with its width, its characters and its colours."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

from skyline.lazy_dataclass import dataclass
from skyline.report.document import (
    Bar,
    Block,
    Breakdown,
    Cell,
    Column,
    Document,
    Figures,
    Line,
    Paragraph,
    Section,
    Stretch,
    TextTable,
    Title,
)
from skyline.report.place import fitted_path, middle
from skyline.trace.record import Phase

PHASE_STYLES = {
    Phase.DATA: "yellow",
    Phase.FORWARD: "blue",
    Phase.BACKWARD: "magenta",
    Phase.OPTIMIZER: "green",
    Phase.COMMUNICATION: "cyan",
    Phase.OTHER: "bright_black",
}
_TONES = {phase.value: style for phase, style in PHASE_STYLES.items()}
_GUTTER = 2
_NARROW = 100
_LONGEST_BAR = 40
_BAR = 24
_LEAST_SOURCE = 20
_LEAST_CUT = 16
"""The cells that a text which may be cut keeps before a column is dropped."""
_GLUED = re.compile(r"(?<=\d) (?=(?:[µm]?s|[kMGT]?B|samples/s)\b|%)")
"""The space between a number and its unit, at which no line may end."""
_GLUE = "\ue000"
"""Replaces that space while text is wrapped, since any white space allows a line break."""
_PLAIN = str.maketrans(
    {"±": "+/-", "·": "-", "µ": "u", "…": "...", "→": "->", "×": "x", "≥": ">=", "–": "-", "•": "*", "◀": "<"}
)


def print_document(document: Document, console: Console) -> None:
    """Prints a document, with an empty line around each section."""
    console.print(rendered(document, console), soft_wrap=True)


def rendered(document: Document, console: Console) -> Segments:
    """A document as it is printed on this console."""
    sheet = _Sheet(console, glyphs_for(console), console.width, [])
    for section in document.sections:
        if section.only != "html":
            sheet.lines.append(Segment.line())
            sheet.section(section)
    sheet.lines.append(Segment.line())
    return Segments(sheet.lines)


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of drawing characters. ``partial`` are eighths of a cell, thinnest first."""

    full: str
    partial: str
    sliver: str
    hollow: str
    rule: str
    ellipsis: str
    plain: bool

    def text(self, text: str) -> str:
        """``text`` in characters that this terminal has."""
        if not self.plain:
            return text
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")

    def bar(self, share: float, width: int) -> str:
        """A bar of ``share`` of ``width`` cells; anything above zero leaves at least a sliver."""
        eighths = round(max(0.0, min(1.0, share)) * width * 8)
        if not self.partial:
            eighths = round(eighths / 8) * 8
        whole, rest = divmod(eighths, 8)
        bar = self.full * whole + (self.partial[rest - 1] if rest else "")
        return bar or (self.sliver if share > 0 else "")


UNICODE = Glyphs("█", "▏▎▍▌▋▊▉", "▏", "░", "─", "…", plain=False)
ASCII = Glyphs("#", "", "|", "-", "-", "...", plain=True)


def glyphs_for(console: Console) -> Glyphs:
    """Plain characters for a dumb terminal, or for output that is not encoded in Unicode."""
    plain = console.options.ascii_only or os.environ.get("TERM", "") in {"dumb", "unknown"}
    return ASCII if plain else UNICODE


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One page with the characters of its console; everything is indented by one cell."""

    console: Console
    glyphs: Glyphs
    cells: int
    """Width of the console."""
    lines: list[Segment]
    """The page so far. It is printed at once, since a call of the console costs more than a line."""

    @property
    def width(self) -> int:
        """Cells between the indent and the right edge."""
        return max(40, self.cells) - 2

    def section(self, section: Section) -> None:
        if section.title:
            self._heading(section.title, section.aside)
        for block in section.blocks:
            if block.only != "html":
                self._block(block)

    def _block(self, block: Block) -> None:
        match block:
            case Title():
                self._title(block)
            case Paragraph():
                self._paragraph(block)
            case Line():
                self._line(*map(self._text, block.cells))
            case Figures():
                self._figures(block)
            case TextTable():
                self._table(block)
            case Breakdown():
                self._breakdown(block)
            case _:
                pass

    def _text(self, cell: Cell) -> Text:
        text = Text(self.glyphs.text(cell.text), style=_TONES.get(cell.tone, cell.tone), no_wrap=True)
        return self._linked(text, cell)

    def _linked(self, text: Text, cell: Cell) -> Text:
        if self.console.is_terminal and cell.file:
            text.stylize(f"link file://{cell.file}")
        return text

    def _line(self, *parts: Text) -> None:
        """Adds a line; it exceeds the page only if a number would otherwise be lost."""
        line = Text(" ").append_text(Text.assemble(*parts))
        line.rstrip()
        self._put(line)

    def _put(self, text: Text) -> None:
        """Adds a line without wrapping."""
        whole = Text(end="\n").join((text,))
        if "\n" in whole.plain or "\t" in whole.plain:
            options = self.console.options.update(no_wrap=True, overflow="ignore")
            self.lines.extend(self.console.render(whole, options))
        else:
            self.lines.extend(whole.render(self.console, end="\n"))

    def _heading(self, title: str, aside: str) -> None:
        heading, beside = self._text(Cell(title, "bold")), self._text(Cell(aside, "dim"))
        if aside and heading.cell_len + 3 + beside.cell_len > self.width:
            self._line(heading)
            self._paragraph(Paragraph(aside, "dim"))
        else:
            self._line(heading, Text("   "), beside)

    def _title(self, title: Title) -> None:
        lead = [] if title.plain else [Text("Skyline", "bold cyan"), Text("   ")]
        used = sum(part.cell_len for part in lead)
        name = self._cut(Cell(title.text, "bold"), "middle", max(self.width - used, 20))
        basis = self._text(Cell(title.basis, "dim"))
        if used + name.cell_len + 3 + basis.cell_len <= self.width:
            self._line(*lead, name, Text("   "), basis)
            return
        self._line(*lead, name)
        self._paragraph(Paragraph(title.basis, "dim"))

    def _paragraph(self, block: Paragraph) -> None:
        lead = Text(" " * (1 + block.indent)).append_text(Text.assemble(*map(self._text, block.lead)))
        if block.bullet:
            lead.append(f"{self.glyphs.text(block.bullet)} ")
        room = max(20, self.cells - lead.cell_len - 1)
        body = Text(_GLUED.sub(_GLUE, self.glyphs.text(block.text)), style=block.tone)
        for index, wrapped in enumerate(body.wrap(self.console, room)):
            wrapped.rstrip()
            wrapped.plain = wrapped.plain.replace(_GLUE, " ")
            start = lead if index == 0 else Text(" " * lead.cell_len)
            self._put(Text.assemble(start, wrapped))

    def _figures(self, block: Figures) -> None:
        """Puts as many whole figures on each line as fit."""
        line = Text()
        for figure in block.figures:
            number = " ".join(filter(None, (figure.number, figure.unit, figure.spread)))
            parts = (Cell(figure.before, "dim"), Cell(number, "bold"), Cell(figure.after, "dim"))
            text = Text.assemble(*map(self._text, parts))
            if line and line.cell_len + 4 + text.cell_len > self.width:
                self._line(line)
                line = Text()
            line.append(" " * (4 if line else 0)).append_text(text)
        self._line(line)

    def _breakdown(self, block: Breakdown) -> None:
        if not block.parts:
            return
        texts = block.texts()
        whole = block.of or block.total
        if block.form == "words":
            named = ", ".join(
                f"{part.name} {text}" for part, (text, _) in zip(block.parts, texts, strict=True)
            )
            self._paragraph(Paragraph(f"{block.title}: {named}", "dim"))
            return
        bounds = [0.0]
        for part in block.parts:
            bounds.append(bounds[-1] + part.value)
        if block.form == "line":
            head = self._text(Cell(f"{block.title}  {block.sum_text}  "))
            room = max(_LONGEST_BAR // 2, self.width - head.cell_len - _GUTTER)
            self._line(head, self._stack([Stretch(p.value / whole, p.tone) for p in block.parts], room))
            return
        words = sum(max(map(cell_len, column)) for column in zip(*texts, strict=True))
        named = max(cell_len(name) for name in (block.whole, *(part.name for part in block.parts)))
        room = min(_LONGEST_BAR if block.scale else _BAR, self.width - words - named - 3 * _GUTTER)
        rows: list[tuple[Text, ...]] = []
        for part, text, start, end in zip(block.parts, texts, bounds, bounds[1:], strict=False):
            before, after = round(start / whole * room), round(end / whole * room)
            bar = self.glyphs.full * (after - before) or self.glyphs.sliver
            tone = _TONES.get(part.tone, part.tone)
            bar_text = Text(" " * min(before, room - 1)).append(bar, style=tone)
            rows.append((self._text(Cell(part.name)), *(self._text(Cell(one)) for one in text), bar_text))
        if block.whole:
            rows.append(
                (self._text(Cell(block.whole)), self._text(Cell(block.sum_text)), Text("100 %"), Text())
            )
        columns = (Column("", left=True), Column(""), Column(""), Column("", left=True))
        kept = [i for i in range(4) if any(row[i] for row in rows)]
        self._print([columns[i] for i in kept], [tuple(row[i] for i in kept) for row in rows])

    def _stack(self, parts: Sequence[Stretch], room: int) -> Text:
        bar, reached = Text(no_wrap=True), 0.0
        for part in parts:
            before, reached = round(reached * room), reached + part.share
            bar.append(
                self.glyphs.full * (round(reached * room) - before), style=_TONES.get(part.tone, part.tone)
            )
        return bar.append(self.glyphs.hollow * (room - bar.cell_len), style="dim")

    def _table(self, table: TextTable) -> None:
        rows = [row.cells for row in table.rows]
        kept = [i for i, column in enumerate(table.columns) if column.only != "html"]
        narrow = self.cells < _NARROW
        titles = [column.short if narrow and column.short else column.title for column in table.columns]
        widths = [
            max(len(titles[i]), *(self._text(row[i]).cell_len for row in rows)) for i in range(len(titles))
        ]

        def least(index: int) -> int:
            if any(row[index].graphic for row in rows):
                return 4
            cut = table.columns[index].cut
            return min(widths[index], _LEAST_CUT) if cut in ("path", "end") else widths[index]

        spared = sorted((i for i in kept if table.columns[i].spared), key=lambda i: table.columns[i].spared)
        below: list[str] = []
        while spared and sum(map(least, kept)) + _GUTTER * (len(kept) - 1) > self.width:
            kept.remove(gone := spared.pop(0))
            below.append(table.columns[gone].below)
        self._share_out(table, kept, widths)
        columns = [table.columns[i] for i in kept]
        shown = [tuple(self._fitted(row[i], table.columns[i], widths[i]) for i in kept) for row in rows]
        under = [[self._under(line) for line in row.under] for row in table.rows]
        self._print(columns, shown, [titles[i] for i in kept], table.sums, under)
        for text in filter(None, below):
            self._paragraph(Paragraph(text, "dim"))

    def _share_out(self, table: TextTable, kept: list[int], widths: list[int]) -> None:
        """Gives the columns that may be cut, and those with a bar, the room that the others leave."""
        graphic = [i for i in kept if any(row.cells[i].graphic for row in table.rows)]
        cut = [i for i in kept if table.columns[i].cut]
        fixed = sum(widths[i] for i in kept if i not in (*graphic, *cut))
        room = self.width - fixed - _GUTTER * (len(kept) - 1)
        wanted, least = (sum(min(widths[i], most) for i in cut) for most in (self.width, _LEAST_CUT))
        for index in graphic:
            # A bar yields to text that may be cut, up to half of the room.
            widths[index] = max(4, min(_LONGEST_BAR, max(room - wanted, min(room // 2, room - least))))
            room -= widths[index]
        if not cut or sum(widths[i] for i in cut) <= room:
            return
        first, *others = cut
        if others:
            # Places are shown whole if that leaves room for the source.
            lengths = [self._text(row.cells[first]).cell_len for row in table.rows]
            whole = [length for length in lengths if length <= room - _LEAST_SOURCE]
            widths[first] = min(widths[first], max(14, int(room * 0.4), *whole))
            widths[others[0]] = max(8, room - widths[first])
        else:
            widths[first] = max(12, room)

    def _fitted(self, cell: Cell, column: Column, width: int) -> Text:
        if isinstance(cell.graphic, Bar):
            share, tone = sum(part.share for part in cell.graphic.parts), cell.graphic.parts[0].tone
            if cell.graphic.hollow:
                return Text(self.glyphs.hollow * max(1, round(share * width)), style=tone)
            return Text(self.glyphs.bar(share, width), style=tone)
        return self._cut(cell, column.cut, width) if column.cut else self._text(cell)

    def _cut(self, cell: Cell, kind: str, width: int) -> Text:
        """The text in at most ``width`` cells; in a path, folders are cut first."""
        text, ellipsis = self.glyphs.text(cell.text), self.glyphs.ellipsis
        if cell_len(text) <= width:
            return self._text(cell)
        if kind == "end":
            text = set_cell_size(text, max(0, width - len(ellipsis))).rstrip() + ellipsis
        elif kind == "start" and text.isascii():
            text = ellipsis + text[len(ellipsis) - width :]
        elif kind == "path":
            text = fitted_path(text, width, ellipsis)
        letters, short = width, text
        # Letters of some scripts take two cells each.
        while cell_len(short) > width and letters > 0:
            short = middle(text, letters, ellipsis)
            letters -= 1
        return self._linked(Text(short, style=cell.tone, no_wrap=True), cell)

    def _under(self, line: Line) -> Text:
        """A line below a row; its second cell is cut if the others need the room."""
        texts = [self._text(cell) for cell in line.cells]
        room = self.width - sum(text.cell_len for text in texts) + texts[1].cell_len
        texts[1] = self._cut(line.cells[1], "middle", max(8, room))
        return Text.assemble(*texts)

    def _print(
        self,
        columns: Sequence[Column],
        rows: Sequence[tuple[Text, ...]],
        titles: Sequence[str] = (),
        sums: int = 0,
        under: Sequence[Sequence[Text]] = (),
    ) -> None:
        """Prints rows under their titles, with columns as wide as their content; separates the last ``sums`` rows."""
        heads = tuple(self._text(Cell(title, "dim")) for title in titles)
        printed = [*([heads] if any(titles) else []), *rows]
        widths = [max(row[i].cell_len for row in printed) for i in range(len(columns))]
        rule = tuple(Text(self.glyphs.rule * width, style="dim") for width in widths)
        for index, row in enumerate(printed):
            if sums and index == len(printed) - sums:
                self._row(columns, widths, rule)
            self._row(columns, widths, row)
            place = index - len(printed) + len(rows)
            for text in under[place] if 0 <= place < len(under) else ():
                self._line(text)

    def _row(self, columns: Sequence[Column], widths: Sequence[int], cells: Sequence[Text]) -> None:
        line = Text()
        for index, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
            space = Text(" " * (width - cell.cell_len))
            line.append(" " * (_GUTTER if index else 0))
            line.append_text(Text.assemble(cell, space) if column.left else Text.assemble(space, cell))
        self._line(line)
