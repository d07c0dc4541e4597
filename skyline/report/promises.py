"""Figures of a verification as they were predicted and as they were measured."""

from __future__ import annotations

from typing import NamedTuple

from skyline import units
from skyline.interval import Interval
from skyline.report.schema import VerifyReport


class Promise(NamedTuple):
    """A figure as it was predicted (empty where it was not) and as it was measured."""

    name: str
    predicted: str
    measured: str


def promises(report: VerifyReport, *, ratio: str) -> list[Promise]:
    """Iteration time, its ratio to the unchanged script (under the name ``ratio``), throughput, peak memory."""
    measured, predicted, baseline = report.measured, report.predicted, report.baseline
    time = units.format_ms_interval(predicted.typical_ms) if predicted is not None else ""
    rows = [Promise("iteration", time, units.format_ms_interval(measured.iteration_ms))]
    times = ""
    if predicted is not None and baseline is not None:
        times = format_ratio(predicted.typical_ms.scaled(1 / baseline.iteration_ms.value))
    rows.append(Promise(ratio, times, format_ratio(measured.ratio)))
    if measured.throughput is not None:
        rate = ""
        if predicted is not None and predicted.throughput is not None:
            rate = units.format_throughput_interval(predicted.throughput)
        rows.append(Promise("throughput", rate, units.format_throughput_interval(measured.throughput)))
    if measured.peak_bytes is not None:
        peak = units.format_bytes(predicted.peak.value) if predicted is not None else ""
        rows.append(Promise("peak memory", peak, _memory(measured.peak_bytes, measured.baseline_peak_bytes)))
    return rows


def format_ratio(ratio: Interval) -> str:
    """``0.857 (0.846 to 0.869)``."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _memory(peak: int, before: int | None) -> str:
    change = "" if before is None else f" ({units.format_bytes_delta(peak - before)})"
    return f"{units.format_bytes(peak)}{change}"
