"""A verification on the terminal: predicted and measured values, and whether it counts."""

from __future__ import annotations

from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.report.schema import VerifyReport
from skyline.report.text.page import Column, Page
from skyline.report.verification import format_ratio, promises


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
    rows = [_row(page, *cells) for cells in promises(report, ratio="relative to the unchanged script")]
    if report.predicted is None:
        rows = [(name, measured) for name, _, measured in rows]
        page.table((Column("", "left"), Column("measured")), rows)
        return
    page.table((Column("", "left"), Column("predicted"), Column("measured")), rows)


def _row(page: Page, name: str, predicted: str, measured: str) -> tuple[Text, Text, Text]:
    return page.text(name), page.text(predicted, "dim"), page.text(measured, "bold")


def _null(report: VerifyReport) -> str:
    rounds = report.measured.rounds
    return (
        f"null, the unchanged script against itself: {format_ratio(report.measured.null)} in {rounds} "
        f"round{'s' * (rounds != 1)}; "
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
