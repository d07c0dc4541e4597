"""A verification on the terminal: predicted beside measured, and whether it counts."""

from __future__ import annotations

from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.interval import Interval
from skyline.report.schema import VerifyReport
from skyline.report.text.page import Column, Page


def render_verification(report: VerifyReport, console: Console, *, ledger: str = "") -> None:
    """The verdict, predicted against measured, the null, and what to do where it does not count."""
    page = Page.on(console, None)
    page.blank()
    page.line(page.text(_subject(report), "bold"))
    _render_verdict(report, page)
    page.blank()
    _render_table(report, page)
    page.blank()
    page.paragraph(_null(report), style="dim")
    page.paragraph(_now(report), style="dim")
    for note in report.notes:
        page.paragraph(note, bullet=page.glyphs.bullet)
    if report.entry is not None:
        page.paragraph(f"kept in the ledger as {report.entry}{f' ({ledger})' if ledger else ''}", style="dim")
    page.blank()


def _subject(report: VerifyReport) -> str:
    name = PurePath(report.script).name
    if report.against:
        return f"{PurePath(report.against).name} against {name}"
    return f"{name}: {' '.join(report.whatifs)}"


def _render_verdict(report: VerifyReport, page: Page) -> None:
    if not report.valid:
        page.paragraph(f"discarded: {report.reason}", style="bold yellow")
        if report.hint:
            page.paragraph(report.hint)
        return
    if report.error is None:
        ratio = report.measured.ratio
        unclear = ratio.low <= 1 <= ratio.high
        words = "no difference that exceeds the noise" if unclear else "measured"
        page.line(page.text(words, "bold"))
        return
    inside = "inside" if report.held else "outside"
    longer = "long" if report.error >= 0 else "short"
    page.line(
        page.text(f"{inside} the predicted interval", "bold green" if report.held else "bold red"),
        page.text(f"   predicted {units.format_share(abs(report.error))} too {longer}"),
    )


def _render_table(report: VerifyReport, page: Page) -> None:
    rows = [_row(page, *cells) for cells in _cells(report)]
    if report.predicted is None:
        rows = [(name, measured) for name, _, measured in rows]
        page.table((Column("", "left"), Column("measured")), rows)
        return
    page.table((Column("", "left"), Column("predicted"), Column("measured")), rows)


def _row(page: Page, name: str, predicted: str, measured: str) -> tuple[Text, Text, Text]:
    return page.text(name), page.text(predicted, "dim"), page.text(measured, "bold")


def _cells(report: VerifyReport) -> list[tuple[str, str, str]]:
    measured, predicted, baseline = report.measured, report.predicted, report.baseline
    cells: list[tuple[str, str, str]] = []
    promised = units.format_ms_interval(predicted.iteration_ms) if predicted is not None else ""
    cells.append(("iteration", promised, units.format_ms_interval(measured.iteration_ms)))
    promised = ""
    if predicted is not None and baseline is not None:
        promised = _ratio(predicted.iteration_ms.scaled(1 / baseline.iteration_ms.value))
    cells.append(("against the script as it stands", promised, _ratio(measured.ratio)))
    if predicted is not None and predicted.throughput is not None and measured.throughput is not None:
        cells.append(
            (
                "throughput",
                units.format_throughput_interval(predicted.throughput),
                units.format_throughput_interval(measured.throughput),
            )
        )
    promised = units.format_bytes(predicted.peak_bytes.value) if predicted is not None else ""
    if measured.peak_bytes is not None:
        cells.append(("peak memory", promised, _memory(measured.peak_bytes, measured.baseline_peak_bytes)))
    return cells


def _ratio(ratio: Interval) -> str:
    """``0.857 (0.846 to 0.869)``."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _memory(peak: int, before: int | None) -> str:
    change = "" if before is None else f" ({units.format_bytes_delta(peak - before)})"
    return f"{units.format_bytes(peak)}{change}"


def _null(report: VerifyReport) -> str:
    rounds = report.measured.rounds
    return (
        f"the script against itself: {_ratio(report.measured.null)} in {rounds} round{'s' * (rounds != 1)}; "
        f"other programs kept {report.measured.others_cores:.1f} cores busy"
    )


def _now(report: VerifyReport) -> str:
    now = units.format_ms(report.measured.baseline_ms)
    if report.baseline is None:
        return f"the script as it stands: {now}"
    then = units.format_ms(report.baseline.iteration_ms.value)
    return f"the script as it stands: {then} in its profile, {now} this time; times above are scaled to the former"
