"""Whether a peak fits into the memory there is."""

from __future__ import annotations

from enum import Enum

from skyline.interval import Interval

HEADROOM = 0.95
"""The share of the capacity that tensors can use: the allocator, the runtime and fragments take the rest."""


class Fit(str, Enum):
    """The verdict on a peak and a capacity."""

    FITS = "fits"
    UNSURE = "unsure"
    TOO_LARGE = "too large"


def fit(peak_bytes: Interval, capacity_bytes: int | None) -> Fit:
    """Whether a peak, uncertain as it is, fits; without a known capacity nothing is too large."""
    if not capacity_bytes:
        return Fit.FITS
    usable = HEADROOM * capacity_bytes
    if peak_bytes.low > usable:
        return Fit.TOO_LARGE
    return Fit.UNSURE if peak_bytes.high > usable else Fit.FITS
