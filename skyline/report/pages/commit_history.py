"""The page of ``skyline history``: step time and peak memory of each state of a script, and the lines that grew."""

from __future__ import annotations

from collections.abc import Iterator

from skyline import units
from skyline.report.basis import when
from skyline.report.commit_history import GrownLine, HistoryReport, StateReport
from skyline.report.document import (
    Bar,
    Cell,
    Column,
    Document,
    Drawing,
    Row,
    Section,
    Stretch,
    TextTable,
    Title,
    document,
    paragraphs,
    said,
)

_COMMIT = 9
_CHART = "a hollow dot was measured on a busy machine; a point of the chart names its commit and its lines"
_TONES = {"slower": "red", "faster": "green"}


def history_page(report: HistoryReport) -> Document:
    """One row per state, oldest first, and a paragraph for each state that is slower than the previous one."""
    name = " ".join((report.script, *report.arguments))
    several = len(report.states)
    basis = f"{units.plural(several, 'state')} of the sources, {report.mode} on {report.device}, PyTorch {report.torch}"
    slower = [text for state in report.states for text in slower_text(state)]
    none = [] if slower else ["No state is slower than the one before it beyond the noise of its runs."]
    left = units.plural(report.others, "profile")
    others = f"Left out: {left} with other arguments, devices, threads or PyTorch." if report.others else ""
    unsure = sum(one.verdict == "unsure" for one in report.states)
    doubt = f"{units.plural(unsure, 'change')} not judged: the machine was busy." if unsure else ""
    return document(
        Section((Title(f"{name}: history", basis, plain=True),)),
        Section((Drawing("curve"),), "Over commits", _CHART, only="html") if several > 1 else None,
        Section((_table(report), *said(others, doubt)), "Step time and memory"),
        paragraphs("Slower", slower) or Section(tuple(said(*none, tone="")), "Slower"),
    )


def _table(report: HistoryReport) -> TextTable:
    time = units.time_scale(one.iteration_ms.value for one in report.states)
    size = units.byte_scale([max(one.peak_bytes for one in report.states)])
    longest = max(one.per_sample_ms for one in report.states)
    columns = (
        Column("profiled", left=True),
        Column("commit", left=True),
        Column("", left=True, cut="end", spared=1),
        Column("batch", spared=2),
        Column(time.unit),
        Column("", left=True),
        Column("change"),
        Column(f"peak {size.unit}"),
    )

    def row(one: StateReport) -> Row:
        tone = _TONES.get(one.verdict, "dim" if one.busy else "")
        bar = Bar((Stretch(one.per_sample_ms / longest, tone or "cyan"),), hollow=one.busy)
        texts = (
            when(one.created),
            commit_name(one),
            one.subject,
            str(one.batch_size or "-"),
            time.number_with_spread(one.iteration_ms),
        )
        return Row(
            (
                *(Cell(text, tone) for text in texts),
                Cell("", graphic=bar),
                Cell(change_text(one), tone),
                Cell(size.number(one.peak_bytes), "red" if (one.peak_change or 0) > 0 else tone),
            )
        )

    return TextTable(columns, tuple(map(row, report.states)))


def commit_name(one: StateReport) -> str:
    """The short name of the commit, with a mark for uncommitted changes."""
    if not one.commit:
        return "no commit"
    return one.commit[:_COMMIT] + ("+" if one.changed else "")


def change_text(one: StateReport) -> str:
    """The change of the time per sample; empty for the first state."""
    if one.change is None:
        return ""
    text = units.format_share_delta(one.change)
    return text if one.verdict in _TONES else f"~{text}"


def slower_text(one: StateReport) -> Iterator[str]:
    """A sentence with commit, change and lines if the state is slower than the previous one."""
    if one.verdict != "slower" or one.change is None:
        return
    at = f"{commit_name(one)} ({one.subject})" if one.commit else f"the state of {when(one.created)}"
    changed = " with changes that are not committed" if one.changed else ""
    grown = "; ".join(map(_line, one.grown)) or "no single line grew"
    yield f"{at}{changed}: {units.format_share_delta(one.change)} per sample. {grown}."


def _line(one: GrownLine) -> str:
    before = "new" if one.before_ms is None else f"from {units.format_ms(one.before_ms)}"
    return f"{one.file}:{one.line} {one.text} takes {units.format_ms(one.after_ms)} ({before})"
