"""The ranked table of ``skyline plan``."""

from __future__ import annotations

from collections.abc import Iterator

from skyline import units
from skyline.interval import Interval
from skyline.report.document import (
    Cell,
    Column,
    Document,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    said,
)
from skyline.report.plan import PlanReport, PlanRow

_DAYS_FROM_H = 48


def plan_page(report: PlanReport) -> Document:
    """The table, the reasons of strategies that are not in it, and the basis of the figures."""
    basis = f"on {report.cluster} ({report.gpu}), figures are {report.provenance}"
    counts = f"{report.considered:,} strategies, {report.fitting:,} can be used; the best of each layout"
    none = said("No strategy can be used here.", tone="bold")
    refused = [f"{count:,}: {reason}" for reason, count in report.refused.items()]
    if report.closest:
        refused.append(f"The least memory: {report.closest}.")
    return document(
        Section((Title(report.model, basis),)),
        Section((_table(report),) if report.rows else tuple(none), "Strategies", counts),
        paragraphs("Not in the table", refused),
        paragraphs("Cluster", (report.source,)),
    )


def _table(report: PlanReport) -> TextTable:
    several = len({row.gpus for row in report.rows}) > 1
    paid = any(row.hours for row in report.rows)
    columns = (
        Column("#"),
        Column("strategy", left=True, cut="end"),
        *((Column("GPUs"),) if several else ()),
        Column("step"),
        Column(f"{report.unit}/s"),
        Column("MFU"),
        Column("memory"),
        *((Column("time"), Column("cost")) if paid else ()),
        Column("limited by", left=True, cut="end", spared=1),
    )
    return TextTable(columns, tuple(Row(tuple(_cells(row, several, paid))) for row in report.rows))


def _cells(row: PlanRow, several: bool, paid: bool) -> Iterator[Cell]:
    tone = "dim" if row.objection else ""
    texts = [str(row.rank), row.label, *([str(row.gpus)] if several else [])]
    texts += [units.format_ms_interval(row.step_ms), _rate(row.units_per_s), units.format_share(row.mfu)]
    texts.append(units.format_bytes(row.memory_bytes.value))
    texts += [_hours(row.hours), _dollars(row.usd)] if paid else []
    return (Cell(text, tone) for text in (*texts, row.objection or row.limit))


def _rate(rate: Interval) -> str:
    return f"{rate.value:,.0f}" if rate.value >= 100 else f"{rate.value:.3g}"


def _hours(hours: Interval | None) -> str:
    if hours is None:
        return "-"
    return f"{hours.value / 24:.1f} d" if hours.value >= _DAYS_FROM_H else f"{hours.value:.1f} h"


def _dollars(usd: Interval | None) -> str:
    return "-" if usd is None else f"${usd.value:,.0f}"
