"""The one line that says how fast a script is."""

from __future__ import annotations

from skyline import units
from skyline.interval import Interval
from skyline.report.schema import ProfileReport


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
    """``182.4 ms ±2.1 per iteration · 175 samples/s · peak 1.9 of 24.0 GB``, and whether the machine was busy."""
    parts = [f"{units.format_ms_interval(report.iteration_ms)} per iteration"]
    if report.mode == "predicted":
        parts[0] += f" (predicted, {report.prediction.gpu})" if report.prediction else " (predicted)"
    if report.throughput is not None:
        parts.append(units.format_throughput(report.throughput.value))
    peak = units.format_bytes_of(report.memory.peak_bytes.value, report.memory.capacity_bytes)
    parts.append(f"peak {peak}")
    if report.prediction is not None and report.prediction.without_loading:
        parts.append("without data loading")
    if words := busy_words(report):
        parts.append(words)
    return " · ".join(parts)


def busy_words(report: ProfileReport) -> str:
    """A remark if other programs disturbed the measurement, or a later one that is not shown; else empty."""
    if report.set_aside:
        return "machine busy: an earlier measurement is shown"
    return "machine busy" if report.machine_busy else ""
