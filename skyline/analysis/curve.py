"""Points of time and memory over the batch size for display."""

from __future__ import annotations

from math import hypot

from skyline.analysis.throughput import throughput_at
from skyline.interval import Interval
from skyline.whatif.catalogue.memory.batch_size import shown_sizes
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.subject import Subject

_LEAST_SHARE = 0.05
"""Lower limit of a time, relative to its estimate: a time is positive at any uncertainty."""


def curve_points(baseline: Subject) -> tuple[CurvePoint, ...]:
    """The sizes to display, smallest first; empty if the script's own batch size is unknown."""
    curve = baseline.curve
    points: list[CurvePoint] = []
    for size in shown_sizes(baseline):
        ratio = curve.ratio(size)
        own = size == curve.base
        iteration_ms = baseline.iteration_ms if own else _iteration_ms(baseline, ratio)
        throughput = throughput_at(baseline, size, iteration_ms)
        if throughput is not None:
            points.append(
                CurvePoint(
                    size,
                    iteration_ms,
                    throughput,
                    Interval.exact(float(baseline.peak.total)) if own else curve.peak_bytes(size),
                    curve.measured(size) and baseline.script.prediction is None,
                    curve.extrapolated(size),
                )
            )
    return tuple(points)


def _iteration_ms(baseline: Subject, ratio: Interval) -> Interval:
    """The ratio times the script's own time, with both uncertainties unless the ratio already includes them all."""
    own = baseline.iteration_ms
    found = ratio.scaled(own.value)
    if baseline.script.prediction is not None:
        return found
    below = hypot(found.value - found.low, ratio.value * (own.value - own.low))
    above = hypot(found.high - found.value, ratio.value * (own.high - own.value))
    return Interval(found.value, max(_LEAST_SHARE * found.value, found.value - below), found.value + above)
