"""The ledger on the terminal: its entries, and how well each what-if has been predicted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.ledger.entry import LedgerEntry, VerificationStatus
from skyline.ledger.record import TrackRecord
from skyline.report.basis import when
from skyline.report.schema import WhatIfReport
from skyline.report.text.page import Column, Page
from skyline.report.verification import correction_words, record_of, record_words

_STYLES = {
    VerificationStatus.MEASURED: "",
    VerificationStatus.DISCARDED: "dim",
    VerificationStatus.ABORTED: "dim",
    VerificationStatus.OPEN: "yellow",
}


def render_ledger(entries: Sequence[LedgerEntry], records: Sequence[TrackRecord], console: Console) -> None:
    """A row for each entry, why some do not count, and the track record of each what-if on each machine."""
    page = Page.on(console, None)
    page.blank()
    if not entries:
        page.paragraph("nothing was verified yet: skyline verify SCRIPT NAME[=VALUE]")
        page.blank()
        return
    page.title("Verifications", "iteration time with the change over that without")
    columns = ("id", "when", "script", "what-if", "predicted", "measured", "error", "interval", "status")
    right = {"predicted", "measured", "error"}
    page.table(
        tuple(Column(name, "right" if name in right else "left") for name in columns),
        [_row(entry, page) for entry in entries],
    )
    reasons = [entry for entry in entries if entry.reason]
    if reasons:
        page.blank()
        for entry in reasons:
            page.paragraph(f"{entry.id}: {entry.status.value}: {entry.reason}", style="dim")
    if records:
        page.blank()
        page.title("How well it was predicted", "on one machine with one version of PyTorch each")
        for record in records:
            page.paragraph(f"{record.whatif}: {record_words(record)}", bullet=page.glyphs.bullet)
    page.blank()


def render_records(report: WhatIfReport, page: Page) -> None:
    """Under the answers: how earlier predictions of the same kind did, and what they would correct."""
    answers = [*report.estimates, *([report.combined] if report.combined is not None else [])]
    for answer in answers:
        record = record_of(answer, report)
        if record is None or not answer.applicable:
            continue
        page.paragraph(f"your ledger, {record.whatif}: {record_words(record)}", style="dim")
        corrected = correction_words(record, answer.iteration_ms)
        if corrected:
            page.paragraph(f"{record.whatif}, {corrected}", style="dim")


def _row(entry: LedgerEntry, page: Page) -> tuple[Text, ...]:
    style = _STYLES[entry.status]
    measured = entry.measurement
    held = {True: "held", False: "missed", None: ""}[entry.held if entry.counts else None]
    cells = (
        entry.id,
        when(entry.created),
        PurePath(entry.script).name,
        entry.question,
        f"{entry.predicted.ratio:.3f}",
        "" if measured is None else f"{measured.ratio:.3f}",
        "" if entry.error is None or not entry.counts else units.format_share_delta(entry.error),
        held,
        entry.status.value,
    )
    return tuple(page.text(cell, style) for cell in cells)
