"""Explanation of a what-if's prediction."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline.report.basis import (
    PROVENANCE,
    baseline_doubt,
    correction_words,
    direction,
    not_clear,
    one_off_words,
    record_words,
    speedup_words,
    to_loss_words,
)
from skyline.report.schema import BaselineReport, EstimateReport, TrackRecordReport
from skyline_tui.figures import (
    DIRECTION_STYLES,
    MUTED,
    memory_change,
    saved_memory,
    saved_time,
    throughput_change,
    time_change,
)
from skyline_tui.screens.sheet import Sheet

SEMANTICS = {
    "exact": "training computes the same numbers",
    "numerics": "results differ by rounding",
    "convergence": "training may converge differently: tune the learning rate again",
    "model": "a different model is trained: compare its results",
}


class Explain(Sheet):
    """The values of a prediction, their basis and assumptions, and whether Skyline can rewrite the code."""

    def __init__(
        self, estimate: EstimateReport, baseline: BaselineReport, record: TrackRecordReport | None = None
    ) -> None:
        super().__init__(estimate.spec, Content("\n").join(_lines(estimate, baseline, record)))


def _lines(
    estimate: EstimateReport, baseline: BaselineReport, record: TrackRecordReport | None
) -> list[Content]:
    lines = [Content.styled(estimate.title, "bold"), Content("")]
    if estimate.applicable:
        change = saved_memory(estimate, baseline)
        lines += [
            _row(
                "iteration",
                f"{time_change(baseline.iteration_ms, estimate.iteration_ms)}   {saved_time(estimate)}",
            ),
            _row("throughput", throughput_change(baseline.throughput, estimate.throughput)),
            _row("peak memory", f"{memory_change(baseline.peak, estimate.peak)}   {change}"),
            Content.assemble(
                _row("speedup", ""),
                (
                    speedup_words(estimate.speedup, estimate.speedup_range),
                    DIRECTION_STYLES[direction(estimate.speedup_range)],
                ),
            ),
        ]
        if words := not_clear(estimate.speedup_range):
            lines.append(_row("", words))
        if doubt := baseline_doubt(estimate.speedup, baseline.iteration_ms):
            lines.append(_row("", f"! {doubt}"))
    else:
        lines.append(_row("! not here", estimate.reason or "no reason was given"))
    if estimate.values:
        lines.append(_row("values", _values(estimate)))
    lines += [_row("semantics", f"{estimate.semantics}: {SEMANTICS[estimate.semantics]}")]
    lines += [_row("from", f"{estimate.provenance}: {PROVENANCE[estimate.provenance]}")]
    lines += [
        _row(
            "simulation error",
            f"{units.format_share(baseline.replay_error)} for the simulation of the unchanged script",
        )
    ]
    if record is not None:
        lines.append(_row("your ledger", record_words(record)))
        if estimate.applicable and (corrected := correction_words(record, estimate.iteration_ms)):
            lines.append(_row("", corrected))
    if once := one_off_words(estimate.one_off_s, estimate.break_even_iterations):
        lines.append(_row("once", once))
    if (found := estimate.to_loss) is not None:
        lines.append(_row("same loss", f"{to_loss_words(found)}, an estimate"))
        lines.append(_row("", f"{units.format_ratio_range(found.samples_ratio)} the samples: {found.basis}"))
    if estimate.extrapolated:
        lines.append(_row("! range", "extrapolated: outside the measured range"))
    rewrite = {
        "available": "a applies it to the code",
        "refused": "refused",
        "none": "you have to make this change by hand",
    }
    why = f": {estimate.rewrite_reason}" if estimate.rewrite_reason else ""
    lines.append(_row("rewrite", rewrite[estimate.rewrite] + why))
    if estimate.assumptions:
        lines += [Content(""), Content.styled("It assumes", "bold")]
        lines += [Content(f"· {assumption}") for assumption in estimate.assumptions]
    return lines


def _values(estimate: EstimateReport) -> str:
    """``1  [2]  4   (← → on its row)``."""
    names = [value or "default" for value in estimate.values]
    shown = [
        f"[{name}]" if value == estimate.value else name
        for name, value in zip(names, estimate.values, strict=True)
    ]
    return f"{'  '.join(shown)}   (← → on its row)"


def _row(name: str, value: str) -> Content:
    return Content.assemble((f"{name:<13}", MUTED), value)
