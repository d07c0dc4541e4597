"""Throughput in samples per second."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.whatif.scenario import Scenario
from skyline.whatif.subject import Subject


def samples_at(baseline: Subject, batch_size: int | None) -> float | None:
    """Samples per iteration at another batch size (None: the script's own), assumed proportional."""
    samples, base = baseline.samples, baseline.batch_size
    if samples is None or batch_size is None or not base:
        return samples
    return samples * batch_size / base


def throughput_at(baseline: Subject, at: Scenario | int | None, iteration_ms: Interval) -> Interval | None:
    """Samples per second of a scenario or at a batch size; None if the samples per iteration are unknown."""
    if isinstance(at, Scenario):
        samples = samples_at(baseline, at.batch_size)
        samples = samples * at.samples_factor if samples else None
    else:
        samples = samples_at(baseline, at)
    return iteration_ms.inverse(samples * 1e3) if samples else None
