"""The latency of the calls of a model, for scripts that evaluate, generate or serve."""

from __future__ import annotations

from math import ceil

from skyline import units
from skyline.report.schema import LatencyReport, ProfileReport
from skyline.trace.profile import Profile

_LEAST_FOR_P99 = 100
"""The least number of calls at which one per cent is a whole call."""


def latency_of(profile: Profile) -> LatencyReport | None:
    """The percentiles over the timed iterations; None for a script that trains."""
    steps = sorted(profile.times.steps_ms)
    if profile.trains or not steps:
        return None
    p99 = _percentile(steps, 99) if len(steps) >= _LEAST_FOR_P99 else None
    return LatencyReport(len(steps), _percentile(steps, 50), _percentile(steps, 90), p99)


def _percentile(ordered: list[float], percent: int) -> float:
    """The smallest value that this percentage of all values does not exceed (nearest rank)."""
    return ordered[max(0, ceil(percent * len(ordered) / 100) - 1)]


def latency_remark(report: ProfileReport) -> str:
    """The percentiles and their scenario in MLPerf Inference; empty for a script that trains.

    MLPerf rates a single stream (one sample at a time) by its 90th percentile, offline work by samples per
    second.
    """
    found = report.latency
    if found is None:
        return ""
    parts = [("p50", found.p50_ms), ("p90", found.p90_ms), ("p99", found.p99_ms)]
    words = " · ".join(f"{name} {units.format_ms(ms)}" for name, ms in parts if ms is not None)
    few = "" if found.p99_ms is not None else f"; p99 needs {_LEAST_FOR_P99}"
    return f"Latency of {found.calls} calls: {words}{few}. {_scenario(report, found)}".rstrip()


def _scenario(report: ProfileReport, found: LatencyReport) -> str:
    if report.batch_size.value == 1:
        return f"One sample at a time (single stream): rated by p90, {units.format_ms(found.p90_ms)}."
    if report.batch_size.value is None or report.throughput is None:
        return ""
    rate = units.format_throughput(report.throughput.value)
    return f"{report.batch_size.value} samples at a time (offline): rated by {rate}."
