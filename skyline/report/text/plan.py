"""The ranked table of ``skyline plan`` on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skyline.interval import Interval
from skyline.report.plan import PlanReport, PlanRow

_GB = 1e9


def render_plan(report: PlanReport, console: Console) -> None:
    """The table, the reasons of strategies that are not in it, and what the figures rest on."""
    console.print()
    console.print(Text(f"{report.model} on {report.cluster} ({report.gpu})", style="bold"))
    console.print(
        f"{report.considered:,} strategies, {report.fitting:,} can be used; the best of each layout; "
        f"figures are {report.provenance}",
        style="dim",
    )
    console.print()
    if not report.rows:
        console.print("No strategy can be used here.")
    else:
        console.print(_table(report))
    if report.refused:
        console.print()
        console.print("Not in the table:")
        for reason, count in report.refused.items():
            console.print(f"  {count:,}: {reason}")
    if report.closest:
        console.print(f"  The least memory: {report.closest}.")
    console.print()
    console.print(f"Cluster: {report.source}", style="dim")


def _table(report: PlanReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("strategy", overflow="fold")
    several = len({row.gpus for row in report.rows}) > 1
    if several:
        table.add_column("GPUs", justify="right")
    for title in ("step", f"{report.unit}/s", "MFU", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    paid = any(row.hours for row in report.rows)
    if paid:
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("limited by")
    for row in report.rows:
        cells = [str(row.rank), row.label]
        if several:
            cells.append(str(row.gpus))
        cells += [_time(row.step_ms), _rate(row.units_per_s), f"{row.mfu * 100:.0f} %", _memory(row)]
        if paid:
            cells += [_hours(row.hours), _dollars(row.usd)]
        table.add_row(*cells, row.objection or row.limit, style="dim" if row.objection else "")
    return table


def _time(step_ms: Interval) -> str:
    unit, factor = ("s", 1e-3) if step_ms.value >= 1000 else ("ms", 1.0)
    half = step_ms.half_width * factor
    value = step_ms.value * factor
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f} {unit}" + (f" ±{half:.{decimals}f}" if half else "")


def _rate(rate: Interval) -> str:
    return f"{rate.value:,.0f}" if rate.value >= 100 else f"{rate.value:.3g}"


def _memory(row: PlanRow) -> str:
    return f"{row.memory_bytes.value / _GB:.1f} GB"


def _hours(hours: Interval | None) -> str:
    if hours is None:
        return "-"
    return f"{hours.value / 24:.1f} d" if hours.value >= 48 else f"{hours.value:.1f} h"


def _dollars(usd: Interval | None) -> str:
    return "-" if usd is None else f"${usd.value:,.0f}"
