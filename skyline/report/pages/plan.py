"""The ranked table of ``skyline plan``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skyline import units
from skyline.interval import Interval
from skyline.report.document import (
    Breakdown,
    BreakdownPart,
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
    said,
)
from skyline.report.plan_report import PlanReport, PlanRow

_DAYS_FROM_H = 48
_LISTED = 8
"""The largest number of stages whose memory is listed one by one."""
_TONES = {
    "computation": "forward",
    "communication": "communication",
    "bubble": "other",
    "optimizer": "optimizer",
    "parameters": "forward",
    "gradients": "backward",
    "activations": "communication",
    "buffers": "data",
    "fixed": "other",
}


def plan_page(report: PlanReport) -> Document:
    """The table, the reasons for strategies outside it, and the basis of the figures."""
    basis = f"on {report.cluster} ({report.gpu}), figures are {report.provenance}"
    counts = f"{report.considered:,} strategies, {report.fitting:,} can be used; the best of each layout"
    none = said(report.advice, tone="bold")
    return document(
        Section((Title(report.model, basis),)),
        Section((_table(report), *_changing(report)) if report.rows else tuple(none), "Strategies", counts),
        *_left_out(report),
    )


def _changing(report: PlanReport) -> Iterable[Paragraph]:
    """A sentence about the rows that change convergence, since their labels may be cut."""
    rows = [str(row.rank) for row in report.rows if row.strategy.changes_convergence]
    return said(f"These rows change convergence: {', '.join(rows)}.") if rows else ()


def row_page(report: PlanReport, row: PlanRow | None) -> Document:
    """One row with the parts of its step and its memory, and the strategies outside the table."""
    shown = () if row is None else tuple(_row_section(row))
    return document(*shown, *_left_out(report))


def _row_section(row: PlanRow) -> Iterator[Section]:
    texts = [f"{row.why or 'The fastest on this number of GPUs'}."]
    if row.objection:
        texts.append(f"The training {row.objection}.")
    if row.stage_memory_bytes:
        texts.append(f"Memory of the stages: {_listed(row.stage_memory_bytes)}.")
    if row.stage_layers:
        texts.append(f"Layers of the stages: {'; '.join(row.stage_layers)}.")
    if row.whatifs:
        texts.append(f"The code: skyline apply SCRIPT {' '.join(row.whatifs)}")
    step = [BreakdownPart(name, _TONES[name], part) for name, part in row.step_parts_ms.items() if part > 0]
    memory = [BreakdownPart(name, _TONES[name], part) for name, part in row.memory_parts.items() if part > 0]
    yield Section(tuple(said(*texts, tone="")), f"{row.rank}: {row.label}", f"on {gpus_words(row.gpus)}")
    yield Section((Breakdown("step", tuple(step), units.format_ms),), "Step", row.limit)
    yield Section((Breakdown("memory", tuple(memory), units.format_bytes),), "Memory of a rank")


def _listed(sizes: tuple[float, ...]) -> str:
    """All sizes if they are few, else the first and the last."""
    if len(sizes) > _LISTED:
        return f"{units.format_bytes(sizes[0])} (first) to {units.format_bytes(sizes[-1])} (last)"
    return ", ".join(map(units.format_bytes, sizes))


def _left_out(report: PlanReport) -> tuple[Section | None, ...]:
    refused = [f"{count:,}: {reason}" for reason, count in report.refused.items()]
    refused += [
        f"{one.label} on {gpus_words(one.gpus)} needs {units.format_bytes(one.memory_bytes)} of "
        f"{units.format_bytes(one.usable_bytes)}"
        for one in report.too_large
    ]
    return paragraphs("Not in the table", refused), paragraphs("Cluster", (report.source,))


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
    texts += [units.format_ms_interval(row.step_ms), rate_words(row.units_per_s), units.format_share(row.mfu)]
    texts.append(units.format_bytes(row.memory_bytes.value))
    texts += [hours_words(row.hours), dollar_words(row.usd)] if paid else []
    return (Cell(text, tone) for text in (*texts, row.objection or row.limit))


def gpus_words(count: int) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{count} GPU{'' if count == 1 else 's'}"


def rate_words(rate: Interval) -> str:
    """Tokens or samples per second."""
    return f"{rate.value:,.0f}" if rate.value >= 100 else f"{rate.value:.3g}"


def hours_words(hours: Interval | None) -> str:
    """The time of the training, in words."""
    if hours is None:
        return "-"
    if hours.value < 1:
        return f"{60 * hours.value:.0f} min"
    return f"{hours.value / 24:.1f} d" if hours.value >= _DAYS_FROM_H else f"{hours.value:.1f} h"


def dollar_words(usd: Interval | None) -> str:
    """The cost of the training, in words."""
    return "-" if usd is None else f"${usd.value:,.0f}"
