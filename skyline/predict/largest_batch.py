"""The largest batch size that fits into memory, found by tracing."""

from __future__ import annotations

from skyline.capture.batch_way import ignored
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.interpolation import interpolated
from skyline.predict.shape_tracer import TracedSizes

_FACTORS = (2.0, 0.5)
_MOST_TRACED = 64
"""Largest multiple of the script's own batch size that is traced; beyond it, memory is extrapolated."""
_MOST_TIMES = 4096
"""Largest multiple of the script's own batch size that is considered."""
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """``size`` is the largest batch size that should fit; None if not even one sample fits, or if unknown.

    It was itself traced if ``traced``; larger ones were not tried if ``larger_untried``. ``reason`` explains why the
    size is unknown; empty otherwise.
    """

    size: int | None
    traced: bool = False
    larger_untried: bool = False
    reason: str = ""


def largest_batch(sizes: TracedSizes, usable_bytes: int) -> LargestBatch:
    """Guess by straight lines through the traced sizes, trace the guess, and repeat until the guess is stable.

    A size that cannot be traced must fit including the uncertainty of the lines. Traced sizes are reused for other
    GPUs.
    """
    base = sizes.base.batch_size
    if base is None or sizes.way is None:
        return LargestBatch(None, reason="the code that sets the batch size was not found")
    most = min(base * _MOST_TIMES, sizes.most or base * _MOST_TIMES)
    for factor in _FACTORS:
        size = max(1, round(base * factor))
        if size <= max(base, most):
            sizes.at(size)
    if len(sizes.peaks) < 2:
        said = ignored(sizes.way).rstrip(".")
        return LargestBatch(None, reason=said[0].lower() + said[1:])
    bound = base * _MOST_TRACED
    for _ in range(_ROUNDS):
        nearest = min(_guess(sizes.peaks, usable_bytes, most) or 1, bound)
        if nearest in sizes.peaks:
            break
        if sizes.at(nearest, 0.7) is None:
            # A script may end before three steps of this size.
            bound = nearest // 2
            if bound <= max(sizes.peaks):
                break
    likely = _guess(sizes.peaks, usable_bytes, most)
    if likely in sizes.peaks or likely is None:
        return LargestBatch(likely, likely is not None, likely == most)
    sure = _guess(sizes.peaks, usable_bytes, most, sure=True)
    return LargestBatch(sure, sure in sizes.peaks, sure == most)


def peak_at(peaks: dict[int, int], size: int) -> Interval:
    """Peak memory at a size in bytes: exact if traced, otherwise by straight lines; ``peaks`` holds at least two."""
    samples = [(known, Interval.exact(float(peak))) for known, peak in peaks.items()]
    if size > samples[-1][0]:
        samples = samples[-2:]
    elif size < samples[0][0]:
        samples = samples[:2]
    return interpolated(samples, size)


def _guess(peaks: dict[int, int], usable_bytes: int, most: int, *, sure: bool = False) -> int | None:
    """The largest size whose memory fits by the lines; if ``sure``, including their uncertainty."""

    def fits(size: int) -> bool:
        peak = peak_at(peaks, size)
        return (peak.high if sure else peak.value) <= usable_bytes

    if not fits(1):
        return None
    low, high = 1, max(1, most)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
