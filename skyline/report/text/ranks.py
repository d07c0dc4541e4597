"""A job's ranks on the terminal: who computes, who waits, and for whom."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.report.ranks import RankReport, RanksReport
from skyline.report.text.findings import render_findings
from skyline.report.text.page import Column, Page

_SHOWN = 16


def render_ranks(report: RanksReport, console: Console) -> None:
    """The step of the job, a row per rank, the straggler and what it costs, and what could not be said."""
    page = Page.on(console, None)
    page.blank()
    page.line(page.text(_subject(report), "bold"))
    page.line(
        page.text(f"step {units.format_ms(report.step_ms)}", "bold"), page.text(_simulated(report), "dim")
    )
    page.blank()
    _render_ranks(report, page)
    if report.kinds:
        page.blank()
        _render_kinds(report, page)
    page.blank()
    page.title("Straggler")
    page.paragraph(_straggler(report))
    if report.whatif is not None:
        page.blank()
        page.title("What if", report.whatif.change)
        page.paragraph(_whatif(report))
    if report.findings:
        page.blank()
        render_findings(report.findings, page, "step")
    page.remarks("Notes", report.notes)
    page.blank()


def _subject(report: RanksReport) -> str:
    count = len(report.ranks)
    of = f" of {report.world_size}" if report.world_size and report.world_size != count else ""
    parts = [f"{count}{of} rank{'s' * (count != 1 or bool(of))}", *report.devices[:2]]
    parts.append(f"{report.steps} step{'s' * (report.steps != 1)}")
    return " · ".join(parts)


def _simulated(report: RanksReport) -> str:
    if report.simulated_ms is None or report.replay_error is None:
        return ""
    off = units.format_share(report.replay_error)
    return f"   simulated {units.format_ms(report.simulated_ms)}, the whole recording {off} off"


def _render_ranks(report: RanksReport, page: Page) -> None:
    shown, left_out = _shown(report.ranks)
    times = [time for one in shown for time in _times(one) if time is not None]
    scale = units.time_scale(times)
    late = units.time_scale([one.behind_ms for one in shown])
    page.title("Ranks", f"{scale.unit} per step")
    titles = ("step", "compute", "transfer", "waiting", "other")
    columns = (
        Column("", "left"),
        *(Column(title) for title in titles),
        Column("arrives last"),
        Column(f"late by ({late.unit})" if late.unit != scale.unit else "late by"),
    )
    straggler = report.straggler.rank if report.straggler is not None else -1
    rows = [
        (
            page.text(f"rank {one.rank}", "bold red" if one.rank == straggler else ""),
            *(_cell(time, scale, page) for time in _times(one)),
            page.text(f"{one.arrived_last} of {one.collectives}" if one.collectives else "-"),
            page.text(late.number(one.behind_ms) if one.arrived_last else "-"),
        )
        for one in shown
    ]
    page.table(columns, rows)
    if left_out:
        page.paragraph(f"{left_out} more ranks, which were late by less; --json has them all", style="dim")
    page.paragraph(
        "transfer and waiting: collectives while nothing is computed; other: neither, such as the host's own work",
        style="dim",
    )


def _times(one: RankReport) -> tuple[float | None, ...]:
    return one.step_ms, one.compute_ms, one.transfer_ms, one.waiting_ms, one.rest_ms


def _cell(time_ms: float | None, scale: units.UnitScale, page: Page) -> Text:
    return page.text("-" if time_ms is None else scale.number(time_ms))


def _shown(ranks: tuple[RankReport, ...]) -> tuple[list[RankReport], int]:
    """All of a few; of many those that others waited for most, in the order of ranks."""
    if len(ranks) <= _SHOWN:
        return list(ranks), 0
    latest = sorted(ranks, key=lambda one: (-one.behind_ms, one.rank))[:_SHOWN]
    return sorted(latest, key=lambda one: one.rank), len(ranks) - _SHOWN


def _render_kinds(report: RanksReport, page: Page) -> None:
    scale = units.time_scale([time for one in report.kinds for time in (one.transfer_ms, one.waiting_ms)])
    page.title("Collectives", f"{scale.unit} per step and rank, computing meanwhile or not")
    columns = (Column("", "left"), Column("number"), Column("transfer"), Column("waiting"))
    rows = [
        (
            page.text(one.kind),
            page.text(str(one.count)),
            page.text(scale.number(one.transfer_ms)),
            page.text(scale.number(one.waiting_ms)),
        )
        for one in report.kinds
    ]
    page.table(columns, rows)


def _straggler(report: RanksReport) -> str:
    found = report.straggler
    if found is None:
        if len(report.ranks) < 2:
            return "one rank alone does not show which rank the others wait for"
        return "none: no rank is waited for much more than the others"
    row = next(one for one in report.ranks if one.rank == found.rank)
    said = (
        f"rank {found.rank} arrives last at {row.arrived_last} of {row.collectives} collectives, "
        f"{units.format_ms(row.behind_ms)} per step behind the middle one of the others."
    )
    if found.gain_ms is None or found.step_ms is None:
        return f"{said} Its cost cannot be simulated: no other rank takes part in the same collectives."
    before_ms = found.step_ms + found.gain_ms
    share = found.gain_ms / before_ms if before_ms > 0 else 0.0
    if share < 0.005:
        return (
            f"{said} Its own work takes no longer than that of rank {found.as_fast_as}: if it were as fast, "
            "the job would gain nothing. It starts late, or waits for something else."
        )
    return (
        f"{said} If it were as fast as rank {found.as_fast_as}, a step of the job would take "
        f"{units.format_ms(found.step_ms)} instead of {units.format_ms(before_ms)}: "
        f"{units.format_share(share)} less."
    )


def _whatif(report: RanksReport) -> str:
    asked = report.whatif
    assert asked is not None
    before_ms = asked.step_ms + asked.gain_ms
    share = -asked.gain_ms / before_ms if before_ms > 0 else 0.0
    return (
        f"a step of the job would take {units.format_ms(asked.step_ms)} instead of "
        f"{units.format_ms(before_ms)}: {units.format_share_delta(share)}"
    )
