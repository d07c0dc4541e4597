"""What-ifs as rows of a table, each with a bar that grows left for faster and right for slower."""

from __future__ import annotations

from dataclasses import dataclass

from skyline import units
from skyline.report import speedup
from skyline.report.schema import EstimateReport, WhatIfReport
from skyline.report.text.whatifs import choice_name, memory_change

_VERDICTS = {"better": "good", "worse": "bad", "": ""}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One what-if: bar and whisker are per cent of the track, whose middle is no change."""

    name: str
    story: tuple[str, ...]
    """A change with its assumptions, and whether Skyline can write it."""
    applicable: bool
    reason: str
    time: str
    iteration: str
    throughput: str
    speed: str
    memory: str
    semantics: str
    provenance: str
    extrapolated: bool
    bar_start: float
    bar_width: float
    whisker_start: float
    whisker_width: float
    verdict: str
    """``good``, ``bad``, or empty where the range of the speed-up holds no change."""


def change_rows(report: WhatIfReport) -> tuple[ChangeRow, ...]:
    """All estimates in their order, then the combination where there is one."""
    estimates = list(report.estimates)
    if report.combined is not None:
        estimates.append(report.combined)
    # Per sample, so that a larger batch is not drawn as a slowdown.
    reach = max((abs(_gain(estimate)) for estimate in estimates if estimate.applicable), default=0.0)
    reach = max(min(reach, 1.5) * 1.1, 0.02)
    return tuple(
        _row(estimate, report, reach, combined=estimate is report.combined) for estimate in estimates
    )


def _gain(estimate: EstimateReport) -> float:
    """The relative change of time for the same work: -0.1 is ten per cent less."""
    return 1 / estimate.speedup - 1 if estimate.speedup > 0 else 0.0


def _row(estimate: EstimateReport, report: WhatIfReport, reach: float, *, combined: bool) -> ChangeRow:
    baseline = report.baseline
    time = estimate.iteration_ms
    spread = estimate.change_ms.half_width / time.value * (1 + _gain(estimate)) if time.value > 0 else 0.0
    gain = _gain(estimate)
    start, end = _track(min(0.0, gain), reach), _track(max(0.0, gain), reach)
    low, high = _track(gain - spread, reach), _track(gain + spread, reach)
    return ChangeRow(
        name="together" if combined else choice_name(estimate),
        story=_story(estimate, combined=combined),
        applicable=estimate.applicable,
        reason=estimate.reason or ("" if estimate.applicable else "does not apply"),
        time=units.format_ms_change(estimate.change_ms),
        iteration=units.format_ms_interval(time),
        throughput=_throughput(estimate),
        speed=units.format_ratio(estimate.speedup),
        memory=memory_change(estimate, baseline),
        semantics=estimate.semantics,
        provenance=estimate.provenance,
        extrapolated=estimate.extrapolated,
        bar_start=start,
        bar_width=round(end - start, 2),
        whisker_start=low,
        whisker_width=round(high - low, 2),
        verdict=_VERDICTS[speedup.direction(estimate.speedup_range)],
    )


def _story(estimate: EstimateReport, *, combined: bool) -> tuple[str, ...]:
    title = () if combined else (estimate.title,)
    if not estimate.applicable:
        return title
    return (*title, *(f"assumes: {assumption}" for assumption in estimate.assumptions), _rewrite(estimate))


def _throughput(estimate: EstimateReport) -> str:
    if estimate.throughput is None:
        return ""
    scale = units.rate_scale((estimate.throughput.value,))
    return scale.number_with_spread(estimate.throughput)


def _rewrite(estimate: EstimateReport) -> str:
    if estimate.rewrite == "available":
        return "can be made in your code"
    reason = f": {estimate.rewrite_reason}" if estimate.rewrite_reason else ""
    return f"{'rewrite refused' if estimate.rewrite == 'refused' else 'to be made by hand'}{reason}"


def _track(gain: float, reach: float) -> float:
    return round(50 + max(-1.0, min(1.0, gain / reach)) * 50, 2)
