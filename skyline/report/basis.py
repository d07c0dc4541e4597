"""Wordings that all front ends share: the headline, the basis of the numbers, speed-ups and doubts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from skyline import units
from skyline.interval import Interval
from skyline.ledger.record import TrackRecord
from skyline.memory.peak import ASSUMED_CONTEXT_BYTES, ASSUMED_FRAGMENTS, Fit, fit
from skyline.report.batch_contents import rate_words
from skyline.report.schema import (
    BaselineReport,
    CurvePointReport,
    EstimateReport,
    ProfileReport,
    WhatIfReport,
)
from skyline.source.knob import KnobKind
from skyline.trace.profile import Prediction
from skyline.whatif.question import TimeToLoss

if TYPE_CHECKING:
    from skyline.report.device_rows import DevicesReport


def headline_so_far(
    batch_size: int | None, iteration_ms: Interval | None, throughput: Interval | None
) -> str:
    """``182.4 ms ±2.1 per iteration · 175 samples/s · measuring…``; ``batch 32 · measuring…`` before any time."""
    parts: list[str] = []
    if iteration_ms is not None:
        parts.append(f"{units.format_ms_interval(iteration_ms)} per iteration")
        if throughput is not None:
            parts.append(units.format_throughput(throughput.value))
    elif batch_size is not None:
        parts.append(f"batch {batch_size}")
    return " · ".join([*parts, "measuring…"])


def headline(report: ProfileReport) -> str:
    """``182.4 ms ±2.1 per iteration · 175 samples/s · peak 1.9 of 24.0 GB``, and ``machine busy`` if so."""
    parts = [f"{units.format_ms_interval(report.iteration_ms)} per iteration"]
    if report.mode == "predicted":
        parts[0] += f" (predicted, {report.prediction.gpu})" if report.prediction else " (predicted)"
    if rate := rate_words(report):
        parts.append(rate)
    peak = units.format_bytes_of(report.memory.peak_bytes.value, report.memory.capacity_bytes)
    parts.append(f"peak {peak}")
    if report.prediction is not None and report.prediction.without_loading:
        parts.append("without data loading")
    if words := busy_words(report):
        parts.append(words)
    return " · ".join(parts)


def busy_words(report: ProfileReport) -> str:
    """A remark if other programs disturbed this measurement or a later one that is not shown; else empty."""
    if report.set_aside:
        return "machine busy: an earlier measurement is shown"
    return "machine busy" if report.machine_busy else ""


Direction = Literal["better", "worse", ""]

_NOTHING = 5e-4
"""A smaller change is printed as 1.00x and counts as none, however certain it is."""
_FACTOR_FROM = 10.0
_NOISE = 0.5
"""The smallest relative half-width at which a time is too uncertain to be the base of a large factor."""


def direction(speedup: Interval | None) -> Direction:
    """The direction of a change; empty if its range includes 1: it is shown as neither gain nor loss."""
    if speedup is None or abs(speedup.value - 1) < _NOTHING:
        return ""
    if speedup.low > 1:
        return "better"
    return "worse" if speedup.high < 1 else ""


UNKNOWN = "not known"
_WIDE = 4.0
"""The ratio of a range's ends from which the range is useless if it includes 1: half to twice the speed."""


def is_known(speedup_range: Interval | None) -> bool:
    """False if a change may halve or double the speed, so that its value is no answer."""
    if speedup_range is None or not speedup_range.low < 1 < speedup_range.high:
        return True
    return speedup_range.high < _WIDE * speedup_range.low


def speedup_words(speedup: float, speedup_range: Interval | None) -> str:
    """``1.30x (1.21–1.40x)``; ``not known (0.28–3.56x)`` for a range that is too wide."""
    if speedup_range is None:
        return units.format_ratio(speedup)
    if not is_known(speedup_range):
        return f"{UNKNOWN} ({range_cell(speedup_range)})"
    return units.format_ratio_range(speedup_range)


LEAST_SHARE = 0.02
"""The least gain of a change in a short list, as a share of the speed or of the peak memory."""


def is_listed(estimate: EstimateReport, baseline: BaselineReport) -> bool:
    """True for a change of a short list: it is likely faster, or saves memory, by ``LEAST_SHARE`` or more.

    A change whose effect is unknown is listed, too.
    """
    if not is_known(estimate.speedup_range) or estimate.speedup >= 1 + LEAST_SHARE:
        return True
    saved = baseline.peak.value - estimate.peak.value
    return estimate.peak_bytes is not None and 0 < baseline.peak.value * LEAST_SHARE <= saved


NOT_CLEAR = "no clear gain"


def not_clear(speedup_range: Interval | None) -> str:
    """``no clear gain`` if the range includes 1 and more; empty if it is too wide or excludes 1."""
    if speedup_range is None or not is_known(speedup_range):
        return ""
    return NOT_CLEAR if speedup_range.low < 1 < speedup_range.high else ""


def speedup_cell(speedup: float, speedup_range: Interval | None) -> str:
    """``1.30x`` for a table; ``~1.30x`` if its range includes 1, ``not known`` if the range is too wide."""
    if not is_known(speedup_range):
        return UNKNOWN
    words = units.format_ratio(speedup)
    if speedup_range is None or speedup_range.low == speedup_range.high:
        return words
    return f"~{words}" if speedup_range.low <= 1 <= speedup_range.high else words


def range_cell(speedup_range: Interval | None) -> str:
    """``1.21–1.40x`` for a table; empty if both ends are printed alike."""
    if speedup_range is None:
        return ""
    low, high = units.format_ratio(speedup_range.low), units.format_ratio(speedup_range.high)
    return "" if low == high else f"{low.removesuffix('x')}–{high}"


def baseline_doubt(speedup: float, baseline_ms: Interval) -> str:
    """The doubt about a large factor: ``from a baseline within noise, 0.20 ms ±0.15``; else empty."""
    if speedup < _FACTOR_FROM or baseline_ms.half_width < _NOISE * baseline_ms.value:
        return ""
    return f"from a baseline within noise, {units.format_ms_interval(baseline_ms)}"


def one_off_words(one_off_s: Interval | None, break_even_iterations: int | None) -> str:
    """``38.0 s ±20.0 of processor time, paid back after 2,300 iterations``; empty without one-off costs."""
    if one_off_s is None:
        return ""
    words = f"{units.format_ms_interval(one_off_s.scaled(1e3))} of processor time"
    if break_even_iterations is None:
        return f"{words}, never paid back"
    return f"{words}, paid back after {break_even_iterations:,} iterations"


_SPANS = (("d", 86400.0, 48 * 3600.0), ("h", 3600.0, 2 * 3600.0), ("min", 60.0, 300.0), ("s", 1.0, 0.0))
"""The unit, its length in s, and the time in s above which it is used."""


def to_loss_words(found: TimeToLoss | None, *, short: bool = False) -> str:
    """``1.40x the time (1.21–1.63x), 3.2 h (now 2.3 h), $4.10``; empty if unknown.

    The short form has no ranges.
    """
    if found is None:
        return ""
    ratio = found.time_ratio
    times = units.format_ratio(ratio.value) if short else units.format_ratio_range(ratio)
    parts = [f"{times} the time"]
    if found.time_s is not None and found.now_s is not None:
        parts.append(f"{span_words(found.time_s.value)} (now {span_words(found.now_s.value)})")
    if found.usd is not None:
        parts.append(f"${found.usd.value:,.2f}")
    return ", ".join(parts)


def span_words(seconds: float) -> str:
    """A time as ``3.2 h``."""
    unit, length_s = span_unit(seconds)
    return f"{seconds / length_s:.3g} {unit}"


def span_unit(longest_s: float) -> tuple[str, float]:
    """The unit for times up to this one, and its length in s."""
    return next((unit, length_s) for unit, length_s, above_s in _SPANS if longest_s >= above_s)


def when(created: str) -> str:
    """The date and time of the measurement, in the time zone in which it was made."""
    try:
        moment = datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return created
    return moment.strftime("%Y-%m-%d %H:%M")


def command_line(report: ProfileReport | DevicesReport) -> str:
    """The script's name and its arguments, as typed."""
    name = f"-m {report.module}" if report.module else PurePath(report.script).name
    return " ".join((name, *report.arguments))


def iteration_remark(report: ProfileReport) -> str:
    """The meaning of one iteration of the script, and the warm-up before it; empty if unknown."""
    if report.iteration is None:
        return ""
    remark = f"An iteration is {report.iteration.meaning}."
    if report.mode == "measured" and report.warmup_reason:
        count = report.warmup_iterations
        remark += (
            f" Measured after {count} warm-up iteration{'' if count == 1 else 's'} ({report.warmup_reason})."
        )
    replayed = sum(effect.count for effect in report.side_effects if effect.kind == "evaluation")
    if replayed:
        times = f"{replayed} forward pass{'' if replayed == 1 else 'es'}"
        remark += f" In an earlier evaluation, {times} returned the result of a previous pass (--evaluation run: none)."
    return remark


def energy_remark(report: ProfileReport) -> str:
    """The energy of an iteration by the hardware's counter; empty without a counter."""
    power = report.power
    if power is None:
        return ""
    many = f"{power.iterations} iteration{'' if power.iterations == 1 else 's'}"
    return (
        f"An iteration takes {power.joules:.3g} J at {power.mean_watts:.0f} W: {power.of}, by its own counter "
        f"({power.source}, {many} in {power.window_s:.1f} s)."
    )


def basis_parts(report: ProfileReport) -> tuple[str, ...]:
    """The origin of the numbers in short: date, device, number of steps."""
    if report.prediction is not None:
        return (f"predicted {when(report.created)} for {device_name(report)}, nothing was run on a GPU",)
    threads = f", {units.plural(report.intraop_threads, 'thread')}" if report.device.kind == "cpu" else ""
    parts = [f"{report.mode} {when(report.created)} on {device_name(report)}{threads}"]
    if report.mode == "measured":
        parts.append(f"{len(report.steps)} step{'s' if len(report.steps) != 1 else ''}")
    return tuple(parts)


def recording_remarks(report: ProfileReport) -> tuple[str, ...]:
    """The deviation of recording and simulation from the timed iterations; empty if nothing was measured."""
    if report.mode != "measured":
        return ()
    error = units.format_share(report.replay_error)
    difference = "the difference between the simulated and the measured iteration"
    return (
        f"A recorded iteration takes {units.format_ratio(report.overhead)} the time of an unrecorded one.",
        f"Simulation error {error}: {difference}. Predictions start from the simulated one.",
    )


def prediction_basis(report: ProfileReport) -> tuple[str, ...]:
    """The basis and the assumptions of predicted numbers, in full; empty for measured numbers."""
    if report.prediction is None:
        return ()
    context, fragments = units.format_bytes(ASSUMED_CONTEXT_BYTES), f"{ASSUMED_FRAGMENTS * 100:.0f} %"
    return (
        f"Times of the GPU: {report.prediction.basis}.",
        "Times of the host (Python, kernel launches): typical costs.",
        *loading_basis(report.prediction),
        (
            f"Memory: every tensor as traced; {context} of the GPU's memory are reserved for the CUDA "
            f"context and {fragments} for fragmentation; "
            "both are assumptions."
        ),
    )


def loading_basis(prediction: Prediction) -> tuple[str, ...]:
    """The basis of the time to load data, as a sentence; none if a batch needs no loading."""
    if prediction.without_loading:
        return (f"Data loading is not included: {prediction.without_loading}.",)
    return (prediction.loading,) if prediction.loading else ()


def device_name(report: ProfileReport) -> str:
    """``CPU (AMD EPYC 7B13)``, or the name of the GPU; with ``of gpubox`` if another machine was named."""
    name = report.device.name
    if report.device.kind == "cpu":
        name = f"CPU ({name})" if name.lower() not in {"", "cpu"} else "CPU"
    return f"{name} of {report.device.host}" if report.device.host else name


def batch_size_remark(report: ProfileReport, where: str) -> str:
    """The code that sets the batch size (``where`` is its shown place), or why no code does."""
    batch = report.batch_size
    if batch.lives is not None:
        return f"The batch size is read from {batch.lives.words}."
    if batch.knob is not None:
        remark = f"set by the {batch.knob.kind} {batch.knob.text} at {where}"
        if batch.knob.kind == KnobKind.COMMAND_LINE.value:
            remark = f"set on the command line to {batch.value}, over the {batch.knob.text} at {where}"
        return f"{remark}, which cannot be rewritten: {batch.reason}" if batch.reason else remark
    return batch.reason or ""


def memory_remark(report: ProfileReport) -> str:
    """The fit of a predicted run into the memory of its GPU, and the largest batch that fits."""
    said = report.prediction
    usable = report.memory.usable_bytes or report.memory.capacity_bytes
    if said is None or not usable:
        return ""
    verdicts = {
        Fit.FITS: f"It fits into the memory of the {said.gpu}",
        Fit.UNSURE: f"It may not fit into the memory of the {said.gpu}",
        Fit.TOO_LARGE: f"It does not fit into the memory of the {said.gpu}",
    }
    verdict = fit(report.memory.peak_bytes, usable)
    if said.largest_batch is None:
        return f"{verdicts[verdict]}."
    how = "traced at that size" if said.largest_batch_traced else "extrapolated from the traced sizes"
    further = "; larger ones were not tried" if said.larger_untried else ""
    memory = units.format_bytes(report.memory.capacity_bytes or usable).replace(".0 ", " ")
    return (
        f"{verdicts[verdict]}. The largest batch that fits {memory} is {said.largest_batch} ({how}{further})"
        f"{_growth(report.curve, said.largest_batch)}."
    )


_LITTLE_GROWTH = 0.02


def _growth(curve: Sequence[CurvePointReport], largest: int) -> str:
    """The batch size beyond which throughput hardly grows; empty if the curve has too few sizes."""
    rates = {
        point.batch_size: point.batch_size / point.iteration_ms.value
        for point in curve
        if point.batch_size <= largest and point.iteration_ms.value > 0
    }
    if len(rates) < 2:
        return ""
    last = max(rates)
    knee = min(
        size
        for size in rates
        if all(rates[other] < (1 + _LITTLE_GROWTH) * rates[size] for other in rates if other > size)
    )
    if knee == last:
        return "; throughput grows up to there" if last == largest else f"; throughput grows up to {last}"
    end = "" if last == largest else f" up to {last}"
    return f"; beyond {knee} throughput grows by less than {_LITTLE_GROWTH * 100:.0f} %{end}"


def point_basis(point: CurvePointReport, *, predicted: bool = False) -> str:
    """The provenance of a point of the batch-size curve, in one word."""
    if point.measured:
        return "measured"
    if point.extrapolated:
        return "extrapolated"
    return "predicted" if predicted else "interpolated"


def measured_range(curve: tuple[CurvePointReport, ...]) -> str:
    """The batch sizes that ran, and the basis of the others; empty without a curve."""
    measured = sorted(point.batch_size for point in curve if point.measured)
    if not measured:
        return "no batch size was run: every point is a prediction" if curve else ""
    if len(measured) == 1:
        return f"measured at {measured[0]} only: every other batch size is extrapolated"
    sizes = ", ".join(str(size) for size in measured)
    return f"measured at {sizes}; below {measured[0]} and above {measured[-1]} it is extrapolated"


PROVENANCE = {
    "measured": "this script ran with the change, on this machine",
    "interpolated": "interpolated between measured runs of this script with a smaller and a larger value",
    "tried": "parts of this script ran with the change here; a simulation combines them",
    "modelled": "a model predicts it from the recorded work",
    "assumed": "a range from experience: a fact that a model needs is not known",
}
"""The wording for each ``Estimate.provenance``, from the strongest to the weakest."""


def whatif_key(estimate: EstimateReport, answer: WhatIfReport) -> str:
    """The name of an estimate in the ledger: the name of its what-if, or all names of a combination."""
    if estimate is not answer.combined:
        return estimate.name
    return "+".join(sorted(single.name for single in answer.estimates))


def record_of(estimate: EstimateReport, answer: WhatIfReport) -> TrackRecord | None:
    """The accuracy of earlier predictions of the same kind."""
    key = whatif_key(estimate, answer)
    return next((record for record in answer.ledger if record.whatif == key), None)


def record_words(record: TrackRecord) -> str:
    """``median error +3 %, ±5 % in 4 of 5 cases; the interval held 4 of 5``."""
    cases = f"{record.cases} case{'s' * (record.cases != 1)}"
    words = [
        (
            f"median error {units.format_share_delta(record.median_error)}, ±{units.format_share(record.within)} in "
            f"{record.inside} of {cases}"
        ),
        f"the interval contained {record.held}",
    ]
    if record.scripts != record.cases:
        words.append(f"{record.scripts} script{'s' * (record.scripts != 1)}")
    if record.discarded:
        words.append(f"{record.discarded} discarded")
    return "; ".join(words)


def correction_words(record: TrackRecord, iteration_ms: Interval) -> str:
    """A prediction as corrected by the ledger; empty if the ledger has too few cases."""
    found = record.correction
    if found is None:
        return ""
    factor = Interval(found.factor, found.low, found.high)
    corrected = factor.scaled(iteration_ms.value)
    return (
        f"corrected by your ledger: {units.format_ms_interval(corrected)} "
        f"({units.format_share_delta(found.factor - 1)}, from {record.cases} verifications here)"
    )
