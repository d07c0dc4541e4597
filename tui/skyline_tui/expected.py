"""The displayed prediction: the server's answer, or values from the curve until the answer arrives."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval
from skyline.report.schema import EstimateReport
from skyline.report.speedup import Direction, direction
from skyline_tui.scale import BarPoint


@dataclass(frozen=True, slots=True)
class Expected:
    """Values for the question on the screen, and whether their range is entirely a gain or a loss."""

    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: Interval
    extrapolated: bool
    direction: Direction = ""

    @classmethod
    def answered(cls, estimate: EstimateReport) -> Expected:
        """From the server's answer."""
        return cls(
            estimate.iteration_ms,
            estimate.throughput,
            estimate.peak,
            estimate.extrapolated,
            direction(estimate.speedup_range),
        )

    @classmethod
    def read_off(cls, place: BarPoint) -> Expected:
        """From the curve: without a range, so neither gain nor loss."""
        return cls(
            Interval.exact(place.iteration_ms),
            Interval.exact(place.throughput),
            Interval.exact(place.memory_bytes),
            place.extrapolated,
        )
