"""The page of a search for the fastest combination."""

from __future__ import annotations

from pathlib import PurePath

from skyline import units
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Paragraph,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    row,
    said,
)
from skyline.report.tune import TuneReport, basis, sentences
from skyline.tune.trials import TuneTrial

_TONES = {"faster": "bold green", "unverified": "bold yellow"}
_COLUMNS = (
    Column("changes", left=True, cut="end"),
    Column("predicted"),
    Column("measured"),
    Column("time"),
    Column("", left=True),
)


def tune_page(report: TuneReport, *, applied: bool = False) -> Document:
    """The outcome, the command that makes the change, a row per trial, and the parts that were left out."""
    first, *others = sentences(report)
    tone = _TONES.get(report.outcome, "bold")
    head: list[Block] = [Title(PurePath(report.script).name, plain=True), Paragraph(first, tone)]
    head += said(*others, tone="")
    if report.outcome == "faster" and not applied:
        head += said(f"make it: {report.command}", tone="")
    rows = [_row(one) for one in report.trials]
    if report.verified is not None and report.verified not in report.trials:
        rows.append(_row(report.verified, "verification"))
    used = sorted({one.worker for one in report.trials if one.worker})
    failed = [f"{' '.join(one.changes)}: {one.reason}" for one in report.trials if one.reason]
    return document(
        Section(tuple(head)),
        Section((TextTable(_COLUMNS, tuple(rows)), Paragraph(basis(report), "dim")), "Trials")
        if rows
        else None,
        paragraphs("Dropped or uncertain", failed),
        paragraphs("Left out", report.left_out),
        paragraphs("Workers", [_share(worker, report) for worker in used]),
        paragraphs("Notes", report.notes),
    )


def _share(worker: str, report: TuneReport) -> str:
    """The number of trials that a worker measured."""
    return f"{worker}: {units.plural(sum(one.worker == worker for one in report.trials), 'trial')}"


def _row(trial: TuneTrial, mark: str = "") -> Row:
    measured = "failed" if trial.speedup is None else units.format_ratio_range(trial.speedup)
    mark = mark or ("dropped" if trial.dropped else "uncertain" if trial.reason else "")
    return row(
        " ".join(trial.changes),
        Cell(units.format_ratio_range(trial.predicted), "dim"),
        Cell(measured, "dim" if trial.dropped else "bold"),
        f"{trial.took_s:.0f} s",
        Cell(mark, "dim"),
    )
