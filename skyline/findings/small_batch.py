"""SKY304: a larger batch has a clearly higher throughput."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import step_ms
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit, usable_bytes
from skyline.trace.batch_place import batch_place
from skyline.trace.record import CodeLine
from skyline.units import format_bytes, format_ratio_range
from skyline.whatif.subject import Subject

_GAIN = 1.25
"""Gain in samples per second. SageMaker Debugger's BatchSize and the TensorBoard plug-in suggest larger batches below
70 and 50 % utilisation; here the gain of other sizes was measured."""
_NEAR_BEST = 0.8
"""The smallest size within this share of the best gain is sufficient: the remaining gain needs far larger batches."""


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """A larger size that fits, measured or traced for a predicted GPU, is a quarter faster per sample."""

    code: str = "SKY304"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the batch size; the cost is the saving for the current samples at the low end of the gain."""
        curve, capacity = subject.curve, usable_bytes(subject.script)
        base = curve.base
        if base is None or curve.reason:
            return None
        speedups = {
            point.batch_size: _speedup(curve.ratio(point.batch_size), point.batch_size / base)
            for point in curve.points
            if point.batch_size > base and fit(curve.peak_bytes(point.batch_size), capacity) is Fit.FITS
        }
        sure = {size: speedup for size, speedup in speedups.items() if speedup.low >= _GAIN}
        if not sure:
            return None
        most = max(speedup.low for speedup in sure.values())
        size = min(size for size, speedup in sure.items() if speedup.low >= _NEAR_BEST * most)
        total_ms = step_ms(subject)
        ran = "predicted for" if subject.script.prediction is not None else "measured at"
        ratio = curve.ratio(size)
        return Finding.at(
            self.code,
            f"batches of {base} leave speed unused: {format_ratio_range(sure[size])} samples per second with {size}",
            _place(subject),
            total_ms * (1.0 - 1.0 / sure[size].low),
            f"batch_size={size}",
            (
                Evidence(
                    f"{ran} batch size {size}: an iteration takes {format_ratio_range(ratio)} as long, its "
                    f"peak is {format_bytes(curve.peak_bytes(size).value)}"
                ),
            ),
        )


def _speedup(ratio: Interval, larger: float) -> Interval:
    """Samples per second relative to the current size, at most ``larger``.

    More samples cannot take less time. A shorter iteration therefore comes from a disturbed round.
    """
    faster = ratio.inverse(larger)
    return Interval(min(faster.value, larger), min(faster.low, larger), min(faster.high, larger))


def _place(baseline: Subject) -> CodeLine | None:
    profile = baseline.script
    knob = batch_place(profile).knob
    if knob is not None:
        return CodeLine(knob.span.file, knob.span.line)
    return next((loader.created_line for loader in profile.loaders if loader.created_line), None)


RULE = SmallBatch()
