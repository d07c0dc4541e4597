"""Documents as one HTML file: the template filled with the sections and the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer  # pyright: ignore[reportMissingTypeStubs]

from skyline import units
from skyline.lazy_dataclass import dataclass
from skyline.report.basis import command_line, headline
from skyline.report.document import Block, Cell, Document
from skyline.report.html.chart import BOX, charts, memory_chart
from skyline.report.pages.profile import profile_page
from skyline.report.place import common_base, place, short_path
from skyline.report.schema import LineReport, ProfileReport, WhatIfReport
from skyline.source.cells import CellLine, cell_lines, is_notebook
from skyline.source.text import SourceText
from skyline.trace.profile import SourceFile
from skyline.version import __version__

if TYPE_CHECKING:
    from skyline.analysis.analyse import Analysis

WHOLE_FILE_LINES = 300
CONTEXT_LINES = 6
MOST_LINES = 3000


@dataclass(frozen=True, slots=True)
class ListedLine:
    """One line of source; ``heat`` is from 0 to 1, relative to the costliest line."""

    label: str
    """The line number; in a notebook with the number of the cell, as in ``7:3``."""
    anchor: str
    code: Markup
    cost: str
    share: str
    heat: float
    detail: str


@dataclass(frozen=True, slots=True)
class ListedGap:
    """Lines without cost that are left out."""

    count: int


@dataclass(frozen=True, slots=True)
class Listing:
    """One file; files are sorted by cost, highest first."""

    path: str
    cost: str
    share: str
    rows: tuple[ListedLine | ListedGap, ...]


def listings(report: ProfileReport, sources: Sequence[SourceFile], base: Path) -> tuple[Listing, ...]:
    """The files in which time was spent; large files are shortened to the surroundings of costly lines."""
    costs: dict[str, dict[int, LineReport]] = {}
    for line in report.lines:
        if line.file:
            costs.setdefault(line.file, {})[line.line] = line
    files = [source for source in sources if source.path in costs]
    files.sort(key=lambda source: -sum(line.self_ms for line in costs[source.path].values()))
    dearest = max((line.self_ms for line in report.lines if line.file), default=0.0)
    scale = units.time_scale((report.iteration_ms.value,))
    found: list[Listing] = []
    left = MOST_LINES
    for source in files:
        listing = _listing(source, costs[source.path], dearest, scale, base=base, room=left)
        left -= len(listing.rows)
        found.append(listing)
    return tuple(found)


def anchors(report: ProfileReport, listed: tuple[Listing, ...], base: Path) -> frozenset[tuple[str, int]]:
    """The lines of the report that are in the listing."""
    shown = {row.anchor for listing in listed for row in listing.rows if isinstance(row, ListedLine)}
    return frozenset(
        (line.file, line.line)
        for line in report.lines
        if line.file and anchor_of(line.file, line.line, base) in shown
    )


def anchor_of(file: str, line: int, base: Path) -> str:
    """The id of a line in the listing."""
    name = "".join(letter if letter.isalnum() else "-" for letter in place(file, 0, base))
    return f"{name}-L{line}"


def _listing(
    source: SourceFile,
    costs: dict[int, LineReport],
    dearest: float,
    scale: units.UnitScale,
    *,
    base: Path,
    room: int,
) -> Listing:
    lines = SourceText.of(source.path, source.text)
    text = [lines.line(number) for number in range(1, lines.line_count + 1)]
    if text and not text[-1]:
        text.pop()
    cells = cell_lines(source.text) if is_notebook(source.path) else None
    wanted = _wanted(len(text), costs, room)
    rows: list[ListedLine | ListedGap] = []
    last = 0
    for number, markup in _coloured(text, wanted):
        if number > last + 1:
            rows.append(ListedGap(number - last - 1))
        last = number
        line = costs.get(number)
        shows = line is not None and bool(scale.number(line.self_ms).strip("0."))
        rows.append(
            ListedLine(
                label=str(number) if cells is None else _label(cells[number - 1]),
                anchor=anchor_of(source.path, number, base),
                code=markup,
                cost=scale.text(line.self_ms) if line and shows else "",
                share=units.format_share(line.share) if line and shows else "",
                heat=round(line.self_ms / dearest, 3) if line and dearest > 0 else 0.0,
                detail=_detail(line, scale) if line else "",
            )
        )
    if len(text) > last:
        rows.append(ListedGap(len(text) - last))
    return Listing(
        path=short_path(source.path, base),
        cost=scale.text(sum(line.self_ms for line in costs.values())),
        share=units.format_share(sum(line.share for line in costs.values())),
        rows=tuple(rows),
    )


def _label(place: CellLine | None) -> str:
    return f"{place.cell}:{place.line}" if place is not None else ""


def _wanted(count: int, costs: dict[int, LineReport], room: int) -> set[int]:
    if count <= min(WHOLE_FILE_LINES, room):
        return set(range(1, count + 1))
    wanted: set[int] = set()
    for number in sorted(costs, key=lambda number: -costs[number].self_ms):
        around = range(max(1, number - CONTEXT_LINES), min(count, number + CONTEXT_LINES) + 1)
        if len(wanted) + len(around) > room:
            break
        wanted.update(around)
    return wanted


def _detail(line: LineReport, scale: units.UnitScale) -> str:
    parts = {
        "forward": line.forward_ms,
        "backward": line.backward_ms,
        "optimizer": line.optimizer_ms,
        "data": line.data_ms,
        "other": line.other_ms,
    }
    words = [f"{name} {scale.text(time)}" for name, time in parts.items() if time > 0]
    if line.calls:
        words.append(f"{units.format_count(line.calls)} calls")
    if line.activation_bytes:
        words.append(f"keeps {units.format_bytes(line.activation_bytes)} for backward")
    return ", ".join(words)


def _coloured(text: list[str], wanted: set[int]) -> Iterator[tuple[int, Markup]]:
    """The wanted lines as coloured HTML. Each stretch is coloured alone, since whole large files take long."""
    stretch: list[int] = []
    for number in [*sorted(wanted), 0]:
        if stretch and number != stretch[-1] + 1:
            yield from zip(stretch, _highlighted([text[n - 1] for n in stretch]), strict=True)
            stretch = []
        stretch.append(number)


def _highlighted(lines: list[str]) -> list[Markup]:
    """Python source as HTML, one entry per line; pygments escapes what it is given."""
    text = "\n".join(lines)
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
    found = highlight(text, lexer, formatter).split("\n")
    return [Markup(line) for line in found[: len(lines)]]


def render(
    subject: Analysis | ProfileReport,
    whatifs: WhatIfReport | None = None,
    sources: Sequence[SourceFile] = (),
    *,
    answers: bool = True,
) -> str:
    """The page of a profile as one string of HTML.

    An ``Analysis`` contains its what-ifs and sources; a ``ProfileReport`` is shown with the given ones.
    Without ``answers``, the sections omit the what-ifs; the page's data has them.
    """
    if not isinstance(subject, ProfileReport):
        from skyline.report.build import profile_report, whatif_report

        report = profile_report(subject)
        found = whatifs or whatif_report(subject, None)
        return render(report, found, sources or subject.profile.sources, answers=answers)
    report = subject
    base = common_base(report.script, tuple(line.file for line in report.lines))
    page = profile_page(report, whatifs, base=base, full=True, answers=answers)
    listed = listings(report, sources, base)
    known = anchors(report, listed, base)

    def anchor(cell: Cell) -> str:
        return anchor_of(cell.file, cell.line, base) if (cell.file, cell.line) in known else ""

    drawings = {"curve": charts(report), "memory": memory_chart(report, base), "source": listed}
    return _filled(page, report, embedded(report, whatifs), drawings, anchor)


def render_answers(page: Document, report: ProfileReport, answers: WhatIfReport | None = None) -> str:
    """A page of answers about a profile; the head of its report is enough."""
    return _filled(page, report, embedded(report, answers), {}, lambda _: "")


def _filled(
    page: Document,
    report: ProfileReport,
    data: Markup,
    drawings: Mapping[str, object],
    anchor: Callable[[Cell], str],
) -> str:
    names = PageNames(command_line(report), headline(report), f"Profile {report.id}")
    return filled(page, names, data, drawings, anchor)


@dataclass(frozen=True, slots=True)
class PageNames:
    """The title of a page, its figures in one line, and the origin of its data."""

    title: str
    headline: str
    origin: str


def render_report(page: Document, names: PageNames, kind: str, report: object) -> str:
    """A page without drawings, for a report that is no profile: of a trace, of a job's ranks, of a plan."""
    return filled(page, names, as_script({kind: report}), {})


def filled(
    page: Document,
    names: PageNames,
    data: Markup,
    drawings: Mapping[str, object],
    anchor: Callable[[Cell], str] = lambda cell: "",
) -> str:
    """The template with a page, its data and its drawings."""
    return _template().render(
        sections=[section for section in page.sections if section.only != "terminal"],
        title=names.title,
        headline=names.headline,
        origin=names.origin,
        drawings=drawings,
        box=BOX,
        anchor=anchor,
        kind=_kind,
        folded=_folded,
        sentence=_sentence,
        data=data,
        version=__version__,
    )


def embedded(report: ProfileReport, whatifs: WhatIfReport | None) -> Markup:
    """The JSON of the page, safe inside a ``<script>`` element: it contains no ``<`` that could end it."""
    return as_script({"profile": report, "whatif": whatifs})


def as_script(data: Mapping[str, object]) -> Markup:
    """Reports as JSON that is safe inside a ``<script>`` element."""
    text = json.dumps(msgspec.to_builtins(data), separators=(",", ":"))
    # Only notebooks have cells: the empty field would be repeated on every line.
    text = text.replace(',"cell":""', "")
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


@dataclass(frozen=True, slots=True)
class Folded:
    """Paragraphs that open with a click on their title."""

    title: str
    blocks: tuple[Block, ...]
    only: str = ""


def _folded(blocks: Sequence[Block]) -> Iterator[Block | Folded]:
    """The blocks, with each run of paragraphs that share a fold combined into one."""
    for title, run in groupby(blocks, key=lambda block: getattr(block, "fold", "")):
        if title:
            yield Folded(title, tuple(run))
        else:
            yield from run


def _kind(block: Block | Folded) -> str:
    return type(block).__name__


def _sentence(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("skyline.report.html", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")
