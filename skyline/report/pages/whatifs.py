"""The effects of changes, ranked: signed times with their spread, or the reason why a change does not apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from skyline import units
from skyline.report.basis import (
    LEAST_SHARE,
    Direction,
    baseline_doubt,
    correction_words,
    direction,
    is_known,
    is_listed,
    not_clear,
    one_off_words,
    range_cell,
    record_of,
    record_words,
    speedup_cell,
    speedup_words,
    to_loss_words,
)
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Paragraph,
    Row,
    Section,
    TextTable,
    Track,
    document,
    said,
)
from skyline.report.schema import BaselineReport, BestReport, EstimateReport, WhatIfReport

_SEMANTICS = {
    "exact": ("green", "exact: same computation", "that keep the computation"),
    "numerics": ("yellow", "numerics: rounding differs", "that may differ in rounding"),
    "convergence": ("yellow", "convergence: training converges differently", "that train the same network"),
    "model": ("yellow", "model: the model itself changes", "of any kind"),
}
"""The tone, the meaning, and the changes that are allowed up to this level."""
_SAME = 1e-4
"""The share of the peak below which a change of memory counts as none."""
REASONS_SHOWN = 4
"""The number of inapplicable what-ifs that are shown with reasons; the others are listed by name."""
DIRECTION_STYLES: dict[Direction, str] = {"better": "green", "worse": "red", "": ""}
"""Colours; only a change whose range excludes 1 has one."""
_VERDICTS = {"better": "good", "worse": "bad", "": ""}
_EXPLAINED = (
    "Bars compare the time for the same number of samples: left is faster. The thin line is the uncertainty; "
    "a bar is green or red only if its whole range is on one side of no change."
)


def memory_change(estimate: EstimateReport, baseline: BaselineReport) -> str:
    """``-1.1 GB``; ``same`` also for the few bytes by which two models of the same memory may differ."""
    if estimate.peak_bytes is None:
        return "?"
    change = estimate.peak.value - baseline.peak.value
    return units.format_bytes_delta(change if abs(change) > _SAME * baseline.peak.value else 0)


def whatifs_page(
    report: WhatIfReport, *, subject: Sequence[str] = (), script: str = "SCRIPT", detail: bool = True
) -> Document:
    """The answers to some what-ifs; the lines of ``subject`` state their basis."""
    return document(
        Section(tuple(said(*subject))),
        *whatif_sections(report, script=script, detail=detail),
        best_section(report.best, report.baseline, script) if report.best is not None else None,
    )


def whatif_table(report: WhatIfReport) -> Section | None:
    """The table of the what-ifs on a short page, without remarks. None if there are none."""
    listed = [one for one in report.estimates if one.applicable and is_listed(one, report.baseline)]
    return Section(tuple(_table(listed, report, of_trace=False)), *_heading()) if listed else None


def _heading(*, of_trace: bool = False) -> tuple[str, str, str]:
    per = "step relative to the recording" if of_trace else "iteration relative to the unchanged script"
    return "What-ifs", f"change per {per}", _EXPLAINED


def whatif_sections(
    report: WhatIfReport,
    *,
    script: str = "SCRIPT",
    detail: bool = False,
    of_trace: bool = False,
    reasons: bool = False,
    short: bool = False,
) -> Iterator[Section]:
    """The table of what-ifs; ``detail`` adds the assumptions of each and whether the code can be rewritten.

    A trace has no code, and does not show the effect of changes on memory. ``short`` names changes with
    little gain in one line below the table.
    """
    every = [one for one in report.estimates if one.applicable]
    applicable = [one for one in every if is_listed(one, report.baseline)] if short else every
    little = [one for one in every if one not in applicable]
    in_code = [one for one in report.estimates if one.present is not None]
    refused = [one for one in report.estimates if not one.applicable and one.present is None]
    blocks: list[Block] = []
    if applicable:
        blocks += _table(applicable, report, of_trace=of_trace)
    elif not little and not refused and not in_code:
        blocks += said("no what-if is known for this script", tone="")
    for one in applicable if not detail else ():
        if words := one_off_words(one.one_off_s, one.break_even_iterations):
            blocks.append(Paragraph(f"{one.spec} costs once: {words}"))
        if words := to_loss_words(one.to_loss):
            blocks.append(Paragraph(f"{one.spec} to the same loss (estimate): {words}"))
    blocks += _little(little, script)
    remarks = [*_remarks(applicable, refused, in_code, script, reasons=reasons or detail), *_records(report)]
    heading = _heading(of_trace=of_trace)
    if not detail:
        yield Section((*blocks, *remarks), *heading)
        return
    yield Section(tuple(blocks), *heading)
    for one in applicable:
        yield _detail(one, (one.spec,), script, of_trace=of_trace)
    if report.combined is not None and len(report.estimates) > 1:
        yield _detail(report.combined, tuple(one.spec for one in applicable), script, of_trace=of_trace)
    if remarks:
        yield Section(tuple(remarks))


def _little(estimates: Sequence[EstimateReport], script: str) -> list[Block]:
    """Changes with little gain, with their speed-up, and the command that shows the table of all changes."""
    if not estimates:
        return []
    named = ", ".join(f"{one.spec} {speedup_cell(one.speedup, one.speedup_range)}" for one in estimates)
    return [
        Paragraph(f"less than {LEAST_SHARE:.0%} faster: {named}".replace("%", " %"), "dim", "!"),
        Paragraph(f"all figures: skyline whatif {quote(script)}", "dim", indent=2),
    ]


def _remarks(
    applicable: Sequence[EstimateReport],
    refused: Sequence[EstimateReport],
    in_code: Sequence[EstimateReport],
    script: str,
    *,
    reasons: bool,
) -> Iterator[Paragraph]:
    if reasons or len(refused) <= REASONS_SHOWN:
        fold = f"{len(refused)} changes do not apply here" if len(refused) > REASONS_SHOWN else ""
        for one in refused:
            yield Paragraph(f"{one.spec}: {one.reason or 'does not apply'}", "dim", "!", fold=fold)
    else:
        yield Paragraph(f"do not apply here: {', '.join(one.name for one in refused)}", "dim", "!")
        yield Paragraph(f"why not: skyline whatif {quote(script)} NAME", "dim", indent=2)
    if in_code:
        named = ", ".join(f"{one.name}={one.present}" for one in in_code)
        yield Paragraph(f"in the code already: {named}", "dim", "!")
        yield Paragraph(f"remove one: skyline apply {quote(script)} --remove NAME", "dim", indent=2)
    present = {one.semantics for one in applicable}
    if present:
        yield Paragraph(
            " · ".join(text for name, (_, text, _) in _SEMANTICS.items() if name in present), "dim"
        )


def _records(report: WhatIfReport) -> Iterator[Paragraph]:
    """The accuracy of earlier predictions of the same kind, and their correction."""
    for answer in (*report.estimates, report.combined):
        record = record_of(answer, report) if answer is not None else None
        if answer is None or record is None or not answer.applicable:
            continue
        yield Paragraph(f"your ledger, {record.whatif}: {record_words(record)}", "dim")
        if corrected := correction_words(record, answer.iteration_ms):
            yield Paragraph(f"{record.whatif}, {corrected}", "dim")


def _table(estimates: list[EstimateReport], report: WhatIfReport, *, of_trace: bool) -> Iterator[Block]:
    combined = report.combined if report.combined and report.combined.applicable else None
    shown = [*estimates, *([combined] if combined else [])]
    baseline = report.baseline
    time = units.time_scale(one.change_ms.value for one in shown)
    # Time per sample, so that a larger batch is not drawn as a slowdown.
    reach = max(min(max(abs(_gain(one)) for one in shown), 1.5) * 1.1, 0.02)

    def row(one: EstimateReport) -> Row:
        better = DIRECTION_STYLES[direction(one.speedup_range)]
        name = "together" if one is combined else one.spec
        cells = (
            Cell(name, "bold"),
            Cell("", graphic=_track(one, reach)),
            Cell(time.change_with_spread(one.change_ms) if is_known(one.speedup_range) else "?", better),
            Cell(speedup_cell(one.speedup, one.speedup_range), better),
            Cell(range_cell(one.speedup_range), "dim"),
            Cell(_throughput(one)),
            Cell(memory_change(one, baseline)),
            Cell(one.semantics, _SEMANTICS[one.semantics][0]),
            Cell(_provenance(one), "dim"),
        )
        assumed = (f"assumes: {assumption}" for assumption in one.assumptions)
        title = () if one is combined else (one.title,)
        return Row(cells, story=" · ".join((*title, *assumed, *_made(one))) if not of_trace else "")

    # People type the names: before one is cut, the last column goes below the table.
    columns = (
        Column("", left=True, cut="middle"),
        Column("for the same work", left=True, only="html"),
        Column(time.unit),
        Column("speed"),
        Column("range", left=True, spared=1),
        Column("samples/s", only="html"),
        Column("peak memory"),
        Column("results", left=True),
        Column("from", left=True, spared=2, below=_provenances(estimates)),
    )
    rows = [row(one) for one in shown]
    if of_trace:
        columns = (*columns[:6], *columns[7:])
        rows = [Row((*one.cells[:6], *one.cells[7:])) for one in rows]
    yield TextTable(columns, tuple(rows), sums=int(combined is not None))
    if doubt := baseline_doubt(max(one.speedup for one in shown), baseline.iteration_ms):
        yield Paragraph(f"the speed is {doubt}", "yellow", "!")


def _gain(estimate: EstimateReport) -> float:
    """The relative change of the time for the same work: -0.1 means ten per cent less."""
    return 1 / estimate.speedup - 1 if estimate.speedup > 0 else 0.0


def _track(estimate: EstimateReport, reach: float) -> Track:
    gain, time = _gain(estimate), estimate.iteration_ms.value
    spread = estimate.change_ms.half_width / time * (1 + gain) if time > 0 else 0.0
    ends = (max(-1.0, min(1.0, end / reach)) for end in (gain, gain - spread, gain + spread))
    return Track(*ends, verdict=_VERDICTS[direction(estimate.speedup_range)])


def _throughput(estimate: EstimateReport) -> str:
    if estimate.throughput is None:
        return ""
    return units.rate_scale((estimate.throughput.value,)).number_with_spread(estimate.throughput)


def _provenance(estimate: EstimateReport) -> str:
    return "extrapolated" if estimate.extrapolated else estimate.provenance


def _provenances(estimates: list[EstimateReport]) -> str:
    """``from: modelled for num_workers=2, fused_optimizer · tried for amp=bf16``; short if all share one."""
    named: dict[str, list[str]] = {}
    for estimate in estimates:
        named.setdefault(_provenance(estimate), []).append(estimate.spec)
    if len(named) == 1:
        return f"from: {next(iter(named))}"
    return "from: " + " · ".join(f"{one} for {', '.join(names)}" for one, names in named.items())


def _detail(estimate: EstimateReport, names: tuple[str, ...], script: str, *, of_trace: bool) -> Section:
    facts = [f"{units.format_ms_interval(estimate.iteration_ms)} per {'step' if of_trace else 'iteration'}"]
    if estimate.throughput is not None:
        facts.append(units.format_throughput_interval(estimate.throughput))
    facts.append(_speed(estimate))
    if estimate.peak_bytes is not None:
        facts.append(f"peak {units.format_bytes(estimate.peak.value)}")
    blocks = [Paragraph(" · ".join(facts), indent=2)]
    if not estimate.applicable:
        blocks.append(Paragraph(estimate.reason or "does not apply", "yellow", indent=2))
    blocks += _conditions(estimate)
    if not of_trace:
        made = next(iter(_made(estimate, f"skyline apply {quote(script)} {' '.join(names)}")))
        blocks.append(Paragraph(f"rewrite: {made}", "dim", indent=2))
    single = len(names) == 1
    return Section(tuple(blocks), names[0] if single else "together", estimate.title if single else "")


def _speed(estimate: EstimateReport) -> str:
    words = (speedup_words(estimate.speedup, estimate.speedup_range), not_clear(estimate.speedup_range))
    return f"speed {', '.join(filter(None, words))}"


def _conditions(estimate: EstimateReport) -> Iterator[Paragraph]:
    """The one-off cost, the assumptions, and whether the answer is outside the measured range."""
    if once := one_off_words(estimate.one_off_s, estimate.break_even_iterations):
        yield Paragraph(f"once: {once}", indent=2)
    if (found := estimate.to_loss) is not None:
        yield Paragraph(f"to the same loss (estimate): {to_loss_words(found)}", indent=2)
        yield Paragraph(
            f"with {units.format_ratio_range(found.samples_ratio)} the samples: {found.basis}",
            "dim",
            indent=2,
        )
    for assumption in estimate.assumptions:
        yield Paragraph(f"assumes: {assumption}", "dim", indent=2)
    if estimate.extrapolated:
        yield Paragraph("extrapolated: outside the measured range", "yellow", indent=2)


def _made(estimate: EstimateReport, command: str = "can be made in your code") -> tuple[str]:
    """The way to make the change in the code, or why a person has to make it."""
    if estimate.rewrite == "available":
        return (command,)
    reason = f" ({estimate.rewrite_reason})" if estimate.rewrite_reason else ""
    return (f"{'refused' if estimate.rewrite == 'refused' else 'you have to make it by hand'}{reason}",)


def best_section(best: BestReport, baseline: BaselineReport, script: str) -> Section:
    """The combination, its effect and the command that makes it, or the reason why there is none."""
    limit = "" if best.memory_bytes is None else f", within {units.format_bytes(best.memory_bytes)}"
    heading = ("Best combination", f"of {best.tried} simulated, {_SEMANTICS[best.semantics][2]}{limit}")
    left_out = tuple(said(*(f"left out: {one}" for one in best.left_out)))
    found = best.estimate
    if found is None or not best.choices:
        reason = best.reason or "no change is certain to gain: every range includes the present speed"
        return Section((*left_out, Paragraph(reason)), *heading)
    words, before = " ".join(best.choices), units.format_ms(baseline.iteration_ms.value)
    facts = (
        f"{units.format_ms_interval(found.iteration_ms)} per iteration, was {before}",
        _speed(found),
        f"peak memory {units.format_bytes(found.peak.value)} ({memory_change(found, baseline)})",
    )
    blocks = [*left_out, Paragraph(words, "bold"), Paragraph(" · ".join(facts), indent=2)]
    if doubt := baseline_doubt(found.speedup, baseline.iteration_ms):
        blocks.append(Paragraph(f"the speed is {doubt}", "yellow", indent=2))
    blocks += _conditions(found)
    if found.rewrite == "available":
        commands = (
            f"make it: skyline apply {quote(script)} {words}",
            f"check it: skyline verify {quote(script)} {words}",
        )
        blocks += said(*commands, indent=2)
    else:
        reason = f": {found.rewrite_reason}" if found.rewrite_reason else ""
        blocks += said(f"not all changes can be made automatically{reason}", indent=2)
    return Section(tuple(blocks), *heading)
