"""One point of the batch-size curve."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Time and memory at one batch size; the band of the curve lies between their low and high ends."""

    batch_size: int
    iteration_ms: Interval
    throughput: Interval
    peak_bytes: Interval
    measured: bool
    extrapolated: bool
