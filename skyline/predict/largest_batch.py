"""The largest batch size whose memory fits, found by tracing it."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.capture.batch_way import ignored
from skyline.interval import Interval
from skyline.predict.reading import read
from skyline.predict.tracer import TracedSizes

_FACTORS = (2.0, 0.5)
_MOST_TRACED = 64
"""How many times its own batch a script is traced at most: beyond, memory is read off the traced sizes."""
_MOST_TIMES = 4096
"""How many times its own batch a size is considered at all."""
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """``size`` is the largest that is believed to fit, None where not even one sample does, or nothing is known.

    It was traced itself where ``traced``, and larger ones were not tried where ``larger_untried``. ``reason`` says why
    nothing is known, empty where something is.
    """

    size: int | None
    traced: bool = False
    larger_untried: bool = False
    reason: str = ""


def largest_batch(sizes: TracedSizes, usable_bytes: int) -> LargestBatch:
    """Guess by straight lines through the traced sizes, trace the guess, and guess again until it is its own answer.

    What cannot be traced has to fit with all that the lines are unsure by. What was traced for one GPU is known for
    the next.
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
            # A script may end before it has taken three steps of this size.
            bound = nearest // 2
            if bound <= max(sizes.peaks):
                break
    likely = _guess(sizes.peaks, usable_bytes, most)
    if likely in sizes.peaks or likely is None:
        return LargestBatch(likely, likely is not None, likely == most)
    sure = _guess(sizes.peaks, usable_bytes, most, sure=True)
    return LargestBatch(sure, sure in sizes.peaks, sure == most)


def peak_at(peaks: dict[int, int], size: int) -> Interval:
    """Peak memory at a size, exact where traced, by straight lines elsewhere; ``peaks`` are two or more."""
    samples = [(known, Interval.exact(float(peak))) for known, peak in peaks.items()]
    if size > samples[-1][0]:
        samples = samples[-2:]
    elif size < samples[0][0]:
        samples = samples[:2]
    return read(samples, size)


def _guess(peaks: dict[int, int], usable_bytes: int, most: int, *, sure: bool = False) -> int | None:
    """The largest size whose memory fits by the lines, ``sure`` with all the room that these are unsure by."""

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
