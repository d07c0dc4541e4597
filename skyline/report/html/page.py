"""Documents as one HTML file: the template filled with the sections and the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from skyline.report.basis import command_line, headline
from skyline.report.document import Block, Cell, Document
from skyline.report.html.chart import BOX, charts, memory_chart
from skyline.report.html.listing import anchor_of, anchors, listings
from skyline.report.pages.profile import profile_page
from skyline.report.place import common_base
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.trace.profile import SourceFile
from skyline.version import __version__

if TYPE_CHECKING:
    from skyline.analysis.analyse import Analysis


def render(
    subject: Analysis | ProfileReport,
    whatifs: WhatIfReport | None = None,
    sources: Sequence[SourceFile] = (),
) -> str:
    """The page of a profile as one string of HTML.

    An ``Analysis`` brings its what-ifs and sources along; a ``ProfileReport`` shows what is given with it.
    """
    if not isinstance(subject, ProfileReport):
        from skyline.report.build import profile_report, whatif_report

        report = profile_report(subject)
        return render(report, whatifs or whatif_report(subject, None), sources or subject.profile.sources)
    report = subject
    base = common_base(report.script, tuple(line.file for line in report.lines))
    page = profile_page(report, whatifs, base=base, full=True)
    listed = listings(report, sources, base)
    known = anchors(report, listed, base)

    def anchor(cell: Cell) -> str:
        return anchor_of(cell.file, cell.line, base) if (cell.file, cell.line) in known else ""

    drawings = {"curve": charts(report), "memory": memory_chart(report, base), "source": listed}
    return _filled(page, report, embedded(report, whatifs), drawings, anchor)


def render_answers(page: Document, report: ProfileReport, answers: WhatIfReport) -> str:
    """A page of answers about a profile, of which the head of the report is enough."""
    return _filled(page, report, embedded(report, answers), {}, lambda _: "")


def _filled(
    page: Document,
    report: ProfileReport,
    data: Markup,
    drawings: Mapping[str, object],
    anchor: Callable[[Cell], str],
) -> str:
    return _template().render(
        sections=[section for section in page.sections if section.only != "terminal"],
        title=command_line(report),
        headline=headline(report),
        profile_id=report.id,
        drawings=drawings,
        box=BOX,
        anchor=anchor,
        kind=_kind,
        sentence=_sentence,
        data=data,
        version=__version__,
    )


def embedded(report: ProfileReport, whatifs: WhatIfReport | None) -> Markup:
    """The JSON of the page, safe inside a ``<script>`` element: no ``<`` is left that could end it."""
    text = json.dumps(
        {"profile": msgspec.to_builtins(report), "whatif": msgspec.to_builtins(whatifs)},
        separators=(",", ":"),
    )
    # Only notebooks have cells, and every line would say so.
    text = text.replace(',"cell":""', "")
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _kind(block: Block) -> str:
    return type(block).__name__


def _sentence(text: str) -> str:
    """With a capital at its start, the rest as it is."""
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
