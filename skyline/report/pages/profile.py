"""The page of a profile, top to bottom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.report.basis import (
    basis_parts,
    busy_words,
    command_line,
    energy_remark,
    iteration_remark,
    memory_remark,
    prediction_basis,
    recording_remarks,
)
from skyline.report.batch_contents import in_contents, tokens_words
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Drawing,
    Figure,
    Figures,
    Line,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    row,
    said,
)
from skyline.report.latency import latency_remark
from skyline.report.pages.curve import curve_section
from skyline.report.pages.findings import findings_section
from skyline.report.pages.lines import SHOWN, SHOWN_IN_FULL, lines_section
from skyline.report.pages.phases import bounds_section, gpu_is_known, phases_section
from skyline.report.pages.verdict import verdict_blocks
from skyline.report.pages.whatifs import whatif_sections, whatif_table
from skyline.report.place import place, shown_from
from skyline.report.schema import ProfileReport, VerdictReport, WhatIfReport
from skyline.trace.facts import Protection, SideEffect

_NOUNS = {
    "file": ("file", "files"),
    "folder": ("folder", "folders"),
    "removal": ("removal", "removals"),
    "download": ("downloaded file", "downloaded files"),
    "program": ("program", "programs"),
}
_MOST_NAMED = 3


def prevented(effects: Sequence[SideEffect]) -> str:
    """``2 files, 1 folder; W&B off``; empty where nothing was prevented."""
    kept = [effect for effect in effects if effect.outcome in ("redirected", "held back")]
    counted = _counted(effect for effect in kept if effect.kind in _NOUNS)
    trackers = dict.fromkeys(effect.target for effect in kept if effect.kind in ("tracker", "profiler"))
    named = f"{', '.join(trackers)} off" if trackers else ""
    refused = _counted(effect for effect in effects if effect.outcome == "refused")
    hosts = _hosts(
        effect.target for effect in effects if effect.kind == "network" and effect.outcome == "refused"
    )
    parts = (counted, named, f"{refused} refused" if refused else "", f"{hosts} refused" if hosts else "")
    return "; ".join(part for part in parts if part)


def allowed(effects: Sequence[SideEffect]) -> str:
    """``1 downloaded file; host example.org; program git``; empty if nothing notable happened."""
    happened = [effect for effect in effects if effect.outcome == "allowed"]
    counted = _counted(effect for effect in happened if effect.kind in _NOUNS and effect.kind != "program")
    parts = [counted]
    for kind, one, many in (
        ("network", "host", "hosts"),
        ("program", "program", "programs"),
        ("tracker", "", ""),
    ):
        names = list(dict.fromkeys(effect.target for effect in happened if effect.kind == kind))
        if names:
            shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
            parts.append(f"{one if len(names) == 1 else many} {shown}".strip())
    return "; ".join(part for part in parts if part)


def _hosts(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    shown = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    return f"{'host' if len(found) == 1 else 'hosts'} {shown}" if found else ""


def protected_by(protection: Protection | None) -> str:
    """The protection of the files, its gaps, and the network that the run can reach; empty if unknown."""
    if protection is None:
        return ""
    reached = "this machine only" if protection.network == "loopback" else "open"
    return f"{_files(protection)}; network: {reached}"


def _files(protection: Protection) -> str:
    reason = f" ({protection.reason})" if protection.reason else ""
    if protection.state == "kernel":
        return f"kernel and interception{reason}"
    if protection.state == "off":
        return f"off{reason}"
    return f"interception only{reason}: native code and programs that the script starts can write"


def _counted(effects: Iterable[SideEffect]) -> str:
    counts: dict[str, int] = {}
    for effect in effects:
        counts[effect.kind] = counts.get(effect.kind, 0) + 1
    return ", ".join(
        f"{counts[kind]} {one if counts[kind] == 1 else many}"
        for kind, (one, many) in _NOUNS.items()
        if kind in counts
    )


_FILES = ("file", "folder", "removal", "download")

_EFFECTS = "Actions of the script other than training"
_SOURCE = "As it was when it was profiled. The darker a line, the more of the iteration it takes."


@dataclass(frozen=True, slots=True)
class SavedPlaces:
    """The places of the saved profile and of its page."""

    profile: Path | None = None
    html: Path | None = None


def profile_page(
    report: ProfileReport,
    whatifs: WhatIfReport | None,
    *,
    base: Path | None = None,
    saved: SavedPlaces | None = None,
    full: bool = False,
    answers: bool = True,
) -> Document:
    """A profile and the possible changes.

    Paths are shown relative to ``base``, such as the working directory of a person who clicks on them.
    Without it, or if the script lies elsewhere, they are relative to the script's folder. ``full`` is for a
    page of any length: more lines, and every reason. Without ``answers``, the page omits the what-ifs, for a
    page that has them elsewhere; the verdict stays.
    """
    base = shown_from(base, report.script, tuple(line.file for line in report.lines))
    return document(
        *_head(report, whatifs.verdict if whatifs is not None else None, base),
        phases_section(report, base),
        bounds_section(report.critical_path, only_html=not gpu_is_known(report)),
        Section((Drawing("memory"),), "Memory over one iteration", "live tensors by owner", only="html")
        if len(report.memory.timeline) > 1
        else None,
        lines_section(report, base, SHOWN_IN_FULL if full else SHOWN),
        curve_section(report, base),
        *(whatif_sections(whatifs, reasons=full, short=not full) if whatifs is not None and answers else ()),
        findings_section(report.findings, base, full=full),
        paragraphs("Notes", report.notes),
        paragraphs("Basis of the prediction", prediction_basis(report), "basis"),
        paragraphs("Measurement", recording_remarks(report)),
        *_effects(report, base),
        Section((Drawing("source"),), "Source", _SOURCE, only="html") if report.lines else None,
        _saved(saved, base) if saved is not None and (saved.profile or saved.html) else None,
    )


def figures_page(report: ProfileReport, whatifs: WhatIfReport | None, base: Path | None) -> Document:
    """The top of the page while a profile is being measured: headline, verdict, and what-ifs."""
    base = shown_from(base, report.script, tuple(line.file for line in report.lines))
    return document(
        *_head(report, whatifs.verdict if whatifs is not None else None, base),
        whatif_table(whatifs) if whatifs is not None else None,
    )


def _head(report: ProfileReport, verdict: VerdictReport | None, base: Path | None) -> Iterator[Section]:
    """The headline numbers, the verdict, and their basis; the basis of a prediction follows its numbers."""
    basis, predicted = " · ".join(basis_parts(report)), report.mode == "predicted"
    yield Section((Title(command_line(report), "" if predicted else basis),))
    busy = "" if verdict is not None and verdict.caution else busy_words(report)
    yield Section(
        (
            Figures(tuple(_figures(report, predicted=predicted))),
            *said(busy, tone="yellow"),
            *said(basis if predicted else ""),
        )
    )
    found = verdict_blocks(verdict, place(report.script, 0, base), base)
    remarks = said(
        latency_remark(report),
        report.wall_time.remark if report.wall_time is not None else "",
        iteration_remark(report),
        memory_remark(report),
        energy_remark(report),
    )
    yield Section((*found, *remarks))


def _figures(report: ProfileReport, *, predicted: bool) -> Iterator[Figure]:
    beside, after = (", predicted", " (predicted)") if predicted else ("", "")
    time = units.time_scale((report.iteration_ms.value,))
    yield _figure(f"Iteration{beside}", time, report.iteration_ms, f" per iteration{after}")
    if report.throughput is not None:
        rate = units.rate_scale((report.throughput.value,))
        figure = _figure(f"Throughput{beside}", rate, report.throughput, tokens_words(report))
        yield replace(figure, unit=in_contents(report, figure.unit))
    else:
        yield Figure("Throughput", "unknown", before="samples/s ", after=": the batch size is not known")
    memory = units.format_bytes_of(report.memory.peak_bytes.value, report.memory.capacity_bytes)
    used, of, capacity = memory.partition(" of ")
    number, _, unit = used.partition(" ")
    yield Figure(f"Peak memory{beside}", number, unit, f"{of}{capacity}".strip(), before="peak ")


def _figure(name: str, scale: units.UnitScale, value: Interval, after: str = "") -> Figure:
    return Figure(name, scale.number(value.value), scale.unit, scale.spread(value).strip(), after=after)


def _effects(report: ProfileReport, base: Path | None) -> Iterator[Section]:
    """At most three lines; none if the script had no side effects."""
    effects = report.side_effects
    texts = {"prevented": prevented(effects), "allowed": allowed(effects)}
    rows = [f"{title}: {text}" for title, text in texts.items() if text]
    protection = f"protection: {protected_by(report.protection)}" if report.protection is not None else ""
    if rows:
        yield Section(tuple(said(*rows, protection)), only="terminal")
    if effects or protection:
        table = TextTable(
            (*(Column("", left=True),) * 3, Column(""), Column("", left=True)),
            tuple(
                row(
                    effect.kind,
                    _target(effect, base),
                    effect.outcome,
                    str(effect.count) if effect.count > 1 else "",
                    place(effect.line.file, effect.line.line, base) if effect.line is not None else "",
                )
                for effect in effects
            ),
        )
        tables = (table,) if effects else ()
        yield Section((*said(*rows, protection), *tables), "Side effects", _EFFECTS, only="html")


def _target(effect: SideEffect, base: Path | None) -> str:
    path = Path(effect.target)
    if effect.kind in _FILES and base is not None and path.is_relative_to(base):
        return str(path.relative_to(base))
    return effect.target


def _saved(saved: SavedPlaces, base: Path) -> Section:
    blocks: list[Block] = [
        Line((Cell(name, "dim"), Cell(place(str(path), 0, base), file=str(path))))
        for name, path in (("saved  ", saved.profile), ("page   ", saved.html))
        if path
    ]
    return Section(tuple(blocks), only="terminal")
