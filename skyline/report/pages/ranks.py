"""The page of a job's ranks: their computing and waiting, and the rank that the others wait for."""

from __future__ import annotations

from skyline import units
from skyline.report.document import (
    Cell,
    Column,
    Document,
    Line,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    row,
    said,
)
from skyline.report.pages.findings import findings_section
from skyline.report.ranks import RankReport, RanksReport, SubModelReport

_SHOWN = 16


def ranks_page(report: RanksReport) -> Document:
    """The step of the job, a row per rank, the straggler and its cost, and unknown facts."""
    step = Cell(f"step {units.format_ms(report.step_ms)}", "bold")
    head = (Title(_subject(report), plain=True), Line((step, Cell(_simulated(report), "dim"))))
    asked = report.whatif
    return document(
        Section(head),
        _ranks(report),
        _kinds(report) if report.kinds else None,
        Section(tuple(said(_straggler(report), tone="")), "Straggler"),
        Section(tuple(said(_whatif(report), tone="")), "What if", asked.change)
        if asked is not None
        else None,
        findings_section(report.findings, None, "step"),
        paragraphs("Notes", report.notes),
    )


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


def _ranks(report: RanksReport) -> Section:
    shown, left_out = _shown(report.ranks)
    scale = units.time_scale([time for one in shown for time in _times(one) if time is not None])
    late = units.time_scale([one.behind_ms for one in shown])
    columns = (
        Column("", left=True),
        *map(Column, ("step", "compute", "transfer", "waiting", "other", "arrives last")),
        Column(f"late by ({late.unit})" if late.unit != scale.unit else "late by"),
    )
    straggler = report.straggler.rank if report.straggler is not None else -1
    rows = tuple(
        row(
            Cell(f"rank {one.rank}", "bold red" if one.rank == straggler else ""),
            *("-" if time is None else scale.number(time) for time in _times(one)),
            f"{one.arrived_last} of {one.collectives}" if one.collectives else "-",
            late.number(one.behind_ms) if one.arrived_last else "-",
        )
        for one in shown
    )
    more = f"{left_out} more ranks, which were late by less; --json has them all" if left_out else ""
    meaning = "transfer and waiting: collectives while nothing is computed; other: neither, such as the host's own work"
    return Section((TextTable(columns, rows), *said(more, meaning)), "Ranks", f"{scale.unit} per step")


def _times(one: RankReport) -> tuple[float | None, ...]:
    return one.step_ms, one.compute_ms, one.transfer_ms, one.waiting_ms, one.rest_ms


def _shown(ranks: tuple[RankReport, ...]) -> tuple[list[RankReport], int]:
    """All ranks if they are few, else those that others waited for most, in the order of ranks."""
    if len(ranks) <= _SHOWN:
        return list(ranks), 0
    latest = sorted(ranks, key=lambda one: (-one.behind_ms, one.rank))[:_SHOWN]
    return sorted(latest, key=lambda one: one.rank), len(ranks) - _SHOWN


def _kinds(report: RanksReport) -> Section:
    scale = units.time_scale([time for one in report.kinds for time in (one.transfer_ms, one.waiting_ms)])
    rows = tuple(
        row(one.kind, str(one.count), scale.number(one.transfer_ms), scale.number(one.waiting_ms))
        for one in report.kinds
    )
    columns = (Column("", left=True), Column("number"), Column("transfer"), Column("waiting"))
    aside = f"{scale.unit} per step and rank, computing meanwhile or not"
    return Section((TextTable(columns, rows),), "Collectives", aside)


def _straggler(report: RanksReport) -> str:
    found = report.straggler
    if found is None:
        if len(report.ranks) < 2:
            return "the trace of one rank does not show which rank the others wait for"
        return "none: no rank causes much more waiting than the others"
    one = next(one for one in report.ranks if one.rank == found.rank)
    late = (
        f"rank {found.rank} arrives last at {one.arrived_last} of {one.collectives} collectives, "
        f"{units.format_ms(one.behind_ms)} per step after the median of the other ranks."
    )
    if found.gain_ms is None or found.step_ms is None:
        return f"{late} Its cost cannot be simulated: no other rank takes part in the same collectives."
    before_ms = found.step_ms + found.gain_ms
    share = found.gain_ms / before_ms if before_ms > 0 else 0.0
    if share < 0.005:
        return (
            f"{late} Its own work takes no longer than that of rank {found.as_fast_as}: if it were as fast, "
            "the job would gain nothing. It starts late, or waits for something else."
        )
    return (
        f"{late} If it were as fast as rank {found.as_fast_as}, a step of the job would take "
        f"{units.format_ms(found.step_ms)} instead of {units.format_ms(before_ms)}: "
        f"{units.format_share(share)} less.{_sub_model(found.sub_model)}"
    )


def _sub_model(smaller: SubModelReport | None) -> str:
    if smaller is None:
        return ""
    width = smaller.kept_width
    ends = f"{units.format_share(width.low)} to {units.format_share(width.high)}"
    effect = (
        f"would equalise the ranks ({units.format_ms(smaller.step_ms)} per step)"
        if smaller.evens
        else f"would change a step to {units.format_ms(smaller.step_ms)}: the rank is also late for other reasons"
    )
    return (
        f" A sub-model of {units.format_share(width.value)} of the width ({ends}) on this rank alone {effect}; "
        "it changes convergence (FLuID)."
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
