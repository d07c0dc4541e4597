"""The document model of a report: sections of paragraphs, figures, tables, breakdowns and charts, for any renderer.

A tone is a style of the terminal ("bold red"), the name of a phase, or the name of a shade of the HTML page. Parts with
``only`` set appear in one of the two renderings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from skyline import units
from skyline.lazy_dataclass import dataclass

Only = Literal["", "terminal", "html"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a bar; its share is relative to the whole bar."""

    share: float
    tone: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a cell; ``hollow`` marks a value that was not measured."""

    parts: tuple[Stretch, ...]
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """A change around a middle line: the bar and its uncertainty, from -1 to 1."""

    value: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of text on one line; with a file, a place that opens on a click."""

    text: str
    tone: str = ""
    file: str = ""
    line: int = 0
    graphic: Bar | Track | None = None
    details: tuple[str, ...] = ()
    """Further text that the HTML page unfolds."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: numbers are aligned to the right and never cut.

    ``cut`` names the part of a long text that is left out. Columns with a ``spared`` rank are dropped from a
    narrow table, lowest rank first; ``below`` then appears under the table.
    """

    title: str
    left: bool = False
    cut: Literal["", "path", "middle", "start", "end"] = ""
    spared: int = 0
    below: str = ""
    only: Only = ""
    short: str = ""
    """The title on a narrow terminal."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; ``under`` are lines below it, ``story`` is text below it on the HTML page."""

    cells: tuple[Cell, ...]
    under: tuple[Line, ...] = ()
    story: str = ""


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows under their titles; the last ``sums`` rows are separated from the others."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sums: int = 0
    only: Only = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Cells next to each other on one line that is never wrapped."""

    cells: tuple[Cell, ...]
    only: Only = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; further lines are indented below the first, behind the bullet or the lead."""

    text: str
    tone: str = ""
    bullet: str = ""
    indent: int = 0
    lead: tuple[Cell, ...] = ()
    fold: str = ""
    """The title of the fold on a web page; neighbouring paragraphs with the same title share one fold."""
    only: Only = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure with its name on the page's card, and with ``before`` and ``after`` on the terminal."""

    name: str
    number: str
    unit: str = ""
    spread: str = ""
    before: str = ""
    after: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Key figures, as many side by side as fit."""

    figures: tuple[Figure, ...]
    only: Only = ""


@dataclass(frozen=True, slots=True)
class BreakdownPart:
    """One part of a breakdown."""

    name: str
    tone: str
    value: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts of a whole: rows with bars on the terminal, one bar with a legend on the HTML page.

    The terminal shows ``form`` "line" as one bar and "words" as a sentence.
    """

    title: str
    parts: tuple[BreakdownPart, ...]
    amount: Callable[[float], str] | None = None
    """Gives an amount in words. None if only shares have a meaning."""
    whole: str = ""
    """The name of the last row, which shows the sum."""
    of: float = 0.0
    """The amount that counts as 100 %; the sum of the parts if zero."""
    scale: units.UnitScale | None = None
    """Amounts and shares are rounded so that they add up."""
    form: Literal["rows", "line", "words"] = "rows"
    remark: str = ""
    """A remark after the amount of the sum only."""
    only: Only = ""

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return sum(part.value for part in self.parts)

    @property
    def sum_text(self) -> str:
        """The amount of the sum, and the remark on it."""
        amount = self.amount(self.total) if self.amount else ""
        return "  ".join(filter(None, (amount, self.remark)))

    def texts(self) -> list[tuple[str, str]]:
        """The amount and the share of each part."""
        whole = self.of or self.total
        shares = [part.value / whole for part in self.parts]
        if self.scale is None:
            amount = self.amount
            return [
                (amount(part.value) if amount else "", units.format_share(share))
                for part, share in zip(self.parts, shares, strict=True)
            ]
        decimals, unit = self.scale.decimals, self.scale.unit
        times = apportion([part.value * self.scale.factor for part in self.parts], decimals)
        whole_shares = apportion([share * 100 for share in shares], 0)
        return [
            (f"{time:.{decimals}f} {unit}", f"{rounded:.0f} %" if rounded >= 1 else units.format_share(share))
            for time, rounded, share in zip(times, whole_shares, shares, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Title:
    """The first line of a page: the subject and the basis of its numbers."""

    text: str
    basis: str = ""
    plain: bool = False
    """True to omit the product name."""
    only: Only = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that the HTML page draws from the report: a chart over batch sizes or time, or the marked source."""

    name: Literal["curve", "memory", "source"]
    only: Only = "html"


Block = Title | Paragraph | Line | Figures | TextTable | Breakdown | Drawing


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under an optional heading; ``explained`` continues the aside on the HTML page."""

    blocks: tuple[Block, ...]
    title: str = ""
    aside: str = ""
    explained: str = ""
    anchor: str = ""
    only: Only = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One page of a report."""

    sections: tuple[Section, ...]


def document(*sections: Section | None) -> Document:
    """A page of the sections that have content."""
    return Document(tuple(one for one in sections if one is not None and (one.blocks or one.title)))


def paragraphs(title: str, texts: Sequence[str], anchor: str = "") -> Section | None:
    """A section with one bullet per text. None without texts."""
    if not texts:
        return None
    return Section(tuple(Paragraph(text, bullet="•") for text in texts), title, anchor=anchor)


def said(*texts: str, tone: str = "dim", indent: int = 0) -> Iterable[Paragraph]:
    """A paragraph for each text that is not empty."""
    return (Paragraph(text, tone, indent=indent) for text in texts if text)


def row(*cells: Cell | str, tone: str = "") -> Row:
    """A row of cells and plain texts in one tone."""
    return Row(tuple(cell if isinstance(cell, Cell) else Cell(cell, tone) for cell in cells))


def apportion(values: Sequence[float], decimals: int) -> list[float]:
    """Rounds values so that their sum equals the rounded total (largest remainder)."""
    unit = 10**decimals
    scaled = [value * unit for value in values]
    floors = [int(value) for value in scaled]
    missing = round(sum(scaled)) - sum(floors)
    by_remainder = sorted(range(len(values)), key=lambda index: floors[index] - scaled[index])
    for index in by_remainder[: max(0, missing)]:
        floors[index] += 1
    return [value / unit for value in floors]
