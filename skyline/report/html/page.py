"""The whole page: the template filled with the views and the data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from skyline import units
from skyline.interval import Interval
from skyline.report.basis import (
    basis_parts,
    batch_size_remark,
    command_line,
    iteration_remark,
    measured_range,
    memory_remark,
    prediction_basis,
)
from skyline.report.effect_summary import allowed, prevented, protected_by
from skyline.report.headline import busy_words, headline
from skyline.report.html.bar import bars
from skyline.report.html.change import change_rows
from skyline.report.html.chart import BOX, charts, memory_chart
from skyline.report.html.cost import cost_table
from skyline.report.html.listing import anchors, listings
from skyline.report.place import common_base, place
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.trace.profile import SourceFile
from skyline.trace.side_effect import SideEffect
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
    listed = listings(report, sources, base)
    memory = report.memory
    costs = units.time_scale(finding.cost_ms for finding in report.findings)
    return _template().render(
        report=report,
        title=command_line(report),
        headline=headline(report),
        basis=_sentence(" · ".join(basis_parts(report))),
        prediction_basis=prediction_basis(report),
        iteration_remark=_remarks(report),
        iteration=_figure(units.time_scale((report.iteration_ms.value,)), report.iteration_ms),
        throughput=_throughput(report),
        peak=units.format_bytes(memory.peak_bytes.value),
        capacity=units.format_bytes(memory.capacity_bytes) if memory.capacity_bytes else "",
        replay_error=units.format_share(report.replay_error),
        bars=bars(report),
        charts=charts(report),
        box=BOX,
        memory=memory_chart(report, base),
        measured_range=_sentence(measured_range(report.curve)),
        memory_remark=memory_remark(report),
        knob=_knob(report, base),
        costs=cost_table(report, base, anchors(report, listed, base)),
        changes=change_rows(whatifs) if whatifs is not None else (),
        findings=[
            (
                finding,
                place(finding.file, finding.line, base),
                costs.text(finding.cost_ms) if finding.cost_ms > 0 else "",
                [
                    f"{place(one.file, one.line, base)}: {one.text}" if one.file else one.text
                    for one in finding.evidence
                ],
            )
            for finding in report.findings
        ],
        listings=listed,
        effects=effect_rows(report.side_effects, base),
        prevented=prevented(report.side_effects),
        allowed=allowed(report.side_effects),
        protected_by=protected_by(report.protection),
        data=embedded(report, whatifs),
        version=__version__,
    )


def embedded(report: ProfileReport, whatifs: WhatIfReport | None) -> Markup:
    """The JSON of the page, safe inside a ``<script>`` element: no ``<`` is left that could end it."""
    text = json.dumps(
        {"profile": msgspec.to_builtins(report), "whatif": msgspec.to_builtins(whatifs)},
        separators=(",", ":"),
    )
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _knob(report: ProfileReport, base: Path) -> str:
    knob = report.batch_size.knob
    return batch_size_remark(report, place(knob.file, knob.line, base) if knob is not None else "")


def _figure(scale: units.UnitScale, value: Interval) -> tuple[str, str, str]:
    """A number, its unit, and its spread, which may stand on a line of its own."""
    return scale.number(value.value), scale.unit, scale.spread(value).strip()


def _throughput(report: ProfileReport) -> tuple[str, str, str]:
    if report.throughput is None:
        return "unknown", "", "no batch dimension was seen"
    return _figure(units.rate_scale((report.throughput.value,)), report.throughput)


def _sentence(text: str) -> str:
    """With a capital at its start, the rest as it is."""
    return text[:1].upper() + text[1:]


def _remarks(report: ProfileReport) -> str:
    busy = busy_words(report)
    return " ".join(filter(None, (f"{_sentence(busy)}." if busy else "", iteration_remark(report))))


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


_FILES = ("file", "folder", "removal", "download")


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect as text; ``place`` is empty where no line of the person's did it."""

    kind: str
    target: str
    outcome: str
    count: str
    place: str


def effect_rows(effects: Sequence[SideEffect], base: Path) -> list[EffectRow]:
    """In the order in which they happened."""
    return [
        EffectRow(
            effect.kind,
            _target(effect, base),
            effect.outcome,
            str(effect.count) if effect.count > 1 else "",
            place(effect.line.file, effect.line.line, base) if effect.line is not None else "",
        )
        for effect in effects
    ]


def _target(effect: SideEffect, base: Path) -> str:
    path = Path(effect.target)
    if effect.kind in _FILES and path.is_relative_to(base):
        return str(path.relative_to(base))
    return effect.target
