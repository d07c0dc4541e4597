"""A verification: predicted and measured values, whether it counts, and the ledger of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from skyline import units
from skyline.interval import Interval
from skyline.ledger.ledger import LedgerEntry, VerificationStatus
from skyline.ledger.record import TrackRecord
from skyline.report.basis import record_words, when
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Line,
    Paragraph,
    Row,
    Section,
    TextTable,
    Title,
    document,
    row,
    said,
)
from skyline.report.schema import VerifyReport

_TONES = {
    VerificationStatus.MEASURED: "",
    VerificationStatus.DISCARDED: "dim",
    VerificationStatus.ABORTED: "dim",
    VerificationStatus.OPEN: "yellow",
}


def verification_page(report: VerifyReport, *, ledger: str = "") -> Document:
    """The verdict, predicted and measured values, the null, and the next step if it does not count."""
    name = PurePath(report.script).name
    subject = f"{name}: {' '.join(report.whatifs)}"
    if report.against:
        subject = f"{PurePath(report.against).name} against {name}"
    where = f" ({ledger})" if ledger else ""
    return document(
        Section((Title(subject, plain=True), *_verdict(report))),
        Section((_promised(report),)),
        Section(
            (
                *said(_null(report), _now(report)),
                *(Paragraph(note, bullet="•") for note in report.notes),
                *said(f"kept in the ledger as {report.entry}{where}" if report.entry is not None else ""),
            )
        ),
    )


def _verdict(report: VerifyReport) -> list[Block]:
    if not report.valid:
        return [*said(f"discarded: {report.reason}", tone="bold yellow"), *said(report.hint or "", tone="")]
    if report.error is None:
        ratio = report.measured.ratio
        unclear = ratio.low <= 1 <= ratio.high
        return [*said("no difference that exceeds the noise" if unclear else "measured", tone="bold")]
    verdict = Cell(
        f"{'inside' if report.held else 'outside'} the predicted interval",
        "bold green" if report.held else "bold red",
    )
    longer = "long" if report.error >= 0 else "short"
    return [Line((verdict, Cell(f"   predicted {units.format_share(abs(report.error))} too {longer}")))]


def _promised(report: VerifyReport) -> TextTable:
    columns = (Column("", left=True), Column("predicted"), Column("measured"))
    rows = tuple(
        row(name, Cell(predicted, "dim"), Cell(measured, "bold"))
        for name, predicted, measured in _promises(report)
    )
    if report.predicted is None:
        rows = tuple(Row((one.cells[0], one.cells[2])) for one in rows)
        columns = (columns[0], columns[2])
    return TextTable(columns, rows)


def _null(report: VerifyReport) -> str:
    rounds = units.plural(report.measured.rounds, "round")
    return (
        f"null, the unchanged script against itself: {_format_ratio(report.measured.null)} in {rounds}; "
        f"other programs used {report.measured.others_cores:.1f} cores"
    )


def _now(report: VerifyReport) -> str:
    now = units.format_ms(report.measured.baseline_ms)
    if report.baseline is None:
        return f"the unchanged script: {now}"
    then = units.format_ms(report.baseline.iteration_ms.value)
    return (
        f"the unchanged script: {then} in its profile, {now} this time; times above are scaled to the profile"
    )


def ledger_page(entries: Sequence[LedgerEntry], records: Sequence[TrackRecord]) -> Document:
    """A row per entry, why some do not count, and the track record of each what-if on each machine."""
    if not entries:
        return document(Section((Paragraph("nothing was verified yet: skyline verify SCRIPT NAME[=VALUE]"),)))
    titles = ("id", "when", "script", "what-if", "predicted", "measured", "error", "interval", "status")
    right = {"predicted", "measured", "error"}
    table = TextTable(
        tuple(Column(name, left=name not in right) for name in titles), tuple(map(_entry, entries))
    )
    how_well = tuple(Paragraph(f"{record.whatif}: {record_words(record)}", bullet="•") for record in records)
    reasons = (f"{one.id}: {one.status.value}: {one.reason}" for one in entries if one.reason)
    return document(
        Section((table,), "Verifications", "iteration time with the change over that without"),
        Section(tuple(said(*reasons))),
        Section(how_well, "Accuracy of the predictions", "on one machine with one version of PyTorch each")
        if records
        else None,
    )


def _entry(entry: LedgerEntry) -> Row:
    measured = entry.measurement
    return row(
        entry.id,
        when(entry.created),
        PurePath(entry.script).name,
        entry.question,
        f"{entry.predicted.ratio:.3f}",
        "" if measured is None else f"{measured.ratio:.3f}",
        "" if entry.error is None or not entry.counts else units.format_share_delta(entry.error),
        {True: "held", False: "missed", None: ""}[entry.held if entry.counts else None],
        entry.status.value,
        tone=_TONES[entry.status],
    )


def _promises(report: VerifyReport) -> list[tuple[str, str, str]]:
    """Iteration time, ratio to the unchanged script, throughput, peak memory: predicted, if so, and measured."""
    measured, predicted, baseline = report.measured, report.predicted, report.baseline
    time = units.format_ms_interval(predicted.typical_ms) if predicted is not None else ""
    rows = [("iteration", time, units.format_ms_interval(measured.iteration_ms))]
    times = ""
    if predicted is not None and baseline is not None:
        times = _format_ratio(predicted.typical_ms.scaled(1 / baseline.iteration_ms.value))
    rows.append(("relative to the unchanged script", times, _format_ratio(measured.ratio)))
    if measured.throughput is not None:
        rate = ""
        if predicted is not None and predicted.throughput is not None:
            rate = units.format_throughput_interval(predicted.throughput)
        rows.append(("throughput", rate, units.format_throughput_interval(measured.throughput)))
    if measured.peak_bytes is not None:
        peak = units.format_bytes(predicted.peak.value) if predicted is not None else ""
        rows.append(("peak memory", peak, _memory(measured.peak_bytes, measured.baseline_peak_bytes)))
    return rows


def _format_ratio(ratio: Interval) -> str:
    """``0.857 (0.846 to 0.869)``."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _memory(peak: int, before: int | None) -> str:
    change = "" if before is None else f" ({units.format_bytes_delta(peak - before)})"
    return f"{units.format_bytes(peak)}{change}"
