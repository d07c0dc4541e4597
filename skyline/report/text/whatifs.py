"""The effects of changes, ranked: signed times with their spread, or the reason why a change does not apply."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from skyline import units
from skyline.interval import Interval
from skyline.report.schema import BaselineReport, EstimateReport, WhatIfReport
from skyline.report.speedup import (
    Direction,
    baseline_doubt,
    direction,
    one_off_words,
    speedup_cell,
    speedup_words,
)
from skyline.report.text.ledger import render_records
from skyline.report.text.page import GUTTER, Column, Page, column_width

_SEMANTICS = {
    "exact": "exact: same results",
    "numerics": "numerics: rounding differs",
    "convergence": "convergence: training takes another course",
}
_SAME = 1e-4
"""Share of the peak below which a change of memory is none."""
REASONS_SHOWN = 4
"""Number of inapplicable what-ifs with reasons; further ones are listed by name."""
DIRECTION_STYLES: dict[Direction, str] = {"better": "green", "worse": "red", "": ""}
"""Colour is for what the range of a change leaves no doubt about."""
_WIDE_PAGE = 64
"""Columns that the table takes beside the names, with the range of the speed; narrower pages show its value alone."""
_AGAINST_SCRIPT = "change per iteration relative to the unchanged script"
_AGAINST_RECORDED = "change per step relative to the recording"
_TEXTS = ("", "results", "from")
_STYLES = {"exact": "green", "numerics": "yellow", "convergence": "yellow"}


def choice_name(estimate: EstimateReport) -> str:
    """``amp=bf16``, as it is typed on a command line."""
    return f"{estimate.name}={estimate.value}" if estimate.value else estimate.name


def memory_change(estimate: EstimateReport, baseline: BaselineReport) -> str:
    """``-1.1 GB``; ``same`` also for the odd bytes by which two models of the same memory may differ."""
    if estimate.peak_bytes is None:
        return "?"
    change = estimate.peak.value - baseline.peak.value
    return units.format_bytes_delta(change if abs(change) > _SAME * baseline.peak.value else 0)


def render_estimates(
    report: WhatIfReport,
    page: Page,
    *,
    script: str = "SCRIPT",
    detail: bool = False,
    of_trace: bool = False,
) -> None:
    """The table of what-ifs; ``detail`` adds what each assumes and whether the code can be rewritten.

    A trace has no code, and does not tell what changes do to the memory.
    """
    applicable = [estimate for estimate in report.estimates if estimate.applicable]
    in_code = [estimate for estimate in report.estimates if estimate.present is not None]
    refused = [
        estimate for estimate in report.estimates if not estimate.applicable and estimate.present is None
    ]
    page.title("What-ifs", _AGAINST_RECORDED if of_trace else _AGAINST_SCRIPT)
    if applicable:
        _render_table(applicable, report, page, of_trace=of_trace)
    elif not refused and not in_code:
        page.paragraph("no what-if is known for this script")
    if not detail:
        for estimate in applicable:
            render_one_off(choice_name(estimate), estimate.one_off_s, estimate.break_even_iterations, page)
    if detail:
        for estimate in applicable:
            _render_detail(estimate, (choice_name(estimate),), script, page, of_trace=of_trace)
        if report.combined is not None and len(report.estimates) > 1:
            _render_detail(
                report.combined,
                tuple(choice_name(estimate) for estimate in applicable),
                script,
                page,
                of_trace=of_trace,
            )
        page.blank()
    if detail or len(refused) <= REASONS_SHOWN:
        for estimate in refused:
            page.paragraph(
                f"{choice_name(estimate)}: {estimate.reason or 'does not apply'}", bullet="!", style="dim"
            )
    else:
        names = ", ".join(estimate.name for estimate in refused)
        page.paragraph(f"do not apply here: {names}", bullet="!", style="dim")
        page.paragraph(f"why not: skyline whatif {script} NAME", indent=3, style="dim")
    if in_code:
        named = ", ".join(f"{each.name}={each.present}" for each in in_code)
        page.paragraph(f"in the code already: {named}", bullet="!", style="dim")
        page.paragraph(f"remove one: skyline apply {script} --remove NAME", indent=3, style="dim")
    present = {estimate.semantics for estimate in applicable}
    if present:
        page.paragraph(" · ".join(text for name, text in _SEMANTICS.items() if name in present), style="dim")
    render_records(report, page)


def _render_table(
    estimates: list[EstimateReport], report: WhatIfReport, page: Page, *, of_trace: bool
) -> None:
    shown = [*estimates, *([report.combined] if report.combined and report.combined.applicable else [])]
    baseline = report.baseline
    time = units.time_scale(estimate.change_ms.value for estimate in shown)
    titles = ["", f"{time.unit}", "speed", "peak memory", "results", "from"]
    longest = max(len(choice_name(estimate)) for estimate in estimates)
    ranged = page.width >= _WIDE_PAGE + longest
    cells = [_numbers(estimate, baseline, time, page, ranged=ranged) for estimate in shown]
    if of_trace:
        titles.pop(3)
        cells = [(*row[:2], *row[3:]) for row in cells]
    taken = [column_width(title, [row[i] for row in cells]) + GUTTER for i, title in enumerate(titles[1:])]
    # A name is what a person types: before one is cut, the last column goes below the table.
    below = longest + sum(taken) > page.width
    room = max(12, page.width - sum(taken[:-1] if below else taken))
    names = [page.shortened(choice_name(estimate), room, "bold") for estimate in estimates]
    if len(shown) > len(estimates):
        names.append(page.text("together", "bold"))
    columns = tuple(Column(title, "left" if title in _TEXTS else "right") for title in titles)
    rows = [(name, *row) for name, row in zip(names, cells, strict=True)]
    if below:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    page.table(columns, rows, sums=len(shown) - len(estimates))
    if below:
        page.paragraph(_provenances(estimates), style="dim")
    render_doubts([estimate.speedup for estimate in shown], baseline.iteration_ms, page)


def render_doubts(speedups: Iterable[float], baseline_ms: Interval, page: Page) -> None:
    """A doubt about a factor in the table above whose baseline is within noise."""
    if doubt := baseline_doubt(max(speedups, default=1.0), baseline_ms):
        page.paragraph(f"the speed is {doubt}", bullet="!", style="yellow")


def render_one_off(
    name: str, one_off_s: Interval | None, break_even_iterations: int | None, page: Page
) -> None:
    """The one-off cost of a change, below the table of its effect per iteration."""
    if words := one_off_words(one_off_s, break_even_iterations):
        page.paragraph(f"{name} costs once: {words}")


def _provenance(estimate: EstimateReport) -> str:
    return "extrapolated" if estimate.extrapolated else estimate.provenance


def _provenances(estimates: list[EstimateReport]) -> str:
    """``from: modelled for num_workers=2, fused_optimizer · tried for amp=bf16``; short where one has all."""
    named: dict[str, list[str]] = {}
    for estimate in estimates:
        named.setdefault(_provenance(estimate), []).append(choice_name(estimate))
    if len(named) == 1:
        return f"from: {next(iter(named))}"
    return "from: " + " · ".join(f"{one} for {', '.join(names)}" for one, names in named.items())


def _numbers(
    estimate: EstimateReport, baseline: BaselineReport, time: units.UnitScale, page: Page, *, ranged: bool
) -> tuple[Text, ...]:
    signed = time.change_with_spread(estimate.change_ms)
    better = DIRECTION_STYLES[direction(estimate.speedup_range)]
    return (
        page.text(signed, better),
        page.text(speedup_cell(estimate.speedup, estimate.speedup_range, ranged=ranged), better),
        page.text(memory_change(estimate, baseline)),
        page.text(estimate.semantics, _STYLES[estimate.semantics]),
        page.text(_provenance(estimate), "dim"),
    )


def _render_detail(
    estimate: EstimateReport, names: tuple[str, ...], script: str, page: Page, *, of_trace: bool
) -> None:
    unit = "step" if of_trace else "iteration"
    facts = [f"{units.format_ms_interval(estimate.iteration_ms)} per {unit}"]
    if estimate.throughput is not None:
        facts.append(units.format_throughput_interval(estimate.throughput))
    facts.append(f"speed {speedup_words(estimate.speedup, estimate.speedup_range)}")
    if estimate.peak_bytes is not None:
        facts.append(f"peak {units.format_bytes(estimate.peak.value)}")
    page.blank()
    title = names[0] if len(names) == 1 else "together"
    beside = f"   {estimate.title}" if len(names) == 1 else ""
    fits = len(title) + len(beside) <= page.width
    page.line(page.text(title, "bold"), page.text(beside if fits else ""))
    if not fits:
        page.paragraph(estimate.title, indent=3)
    page.paragraph(" · ".join(facts), indent=3)
    if not estimate.applicable:
        page.paragraph(estimate.reason or "does not apply", indent=3, style="yellow")
    if once := one_off_words(estimate.one_off_s, estimate.break_even_iterations):
        page.paragraph(f"once: {once}", indent=3)
    for assumption in estimate.assumptions:
        page.paragraph(f"assumes: {assumption}", indent=3, style="dim")
    if estimate.extrapolated:
        page.paragraph("extrapolated: outside the measured range", indent=3, style="yellow")
    if not of_trace:
        page.paragraph(_rewrite(estimate, names, script), indent=3, style="dim")


def _rewrite(estimate: EstimateReport, names: tuple[str, ...], script: str) -> str:
    if estimate.rewrite == "available":
        return f"rewrite: skyline apply {script} {' '.join(names)}"
    reason = f" ({estimate.rewrite_reason})" if estimate.rewrite_reason else ""
    return f"rewrite: {'refused' if estimate.rewrite == 'refused' else 'to be made by hand'}{reason}"
