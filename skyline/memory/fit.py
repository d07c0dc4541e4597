"""Comparison of a memory peak with the available memory."""

from __future__ import annotations

from enum import Enum

from skyline.interval import Interval


class Fit(str, Enum):
    """The verdict on a peak and a capacity."""

    FITS = "fits"
    UNSURE = "unsure"
    TOO_LARGE = "too large"


def fit(peak_bytes: Interval, usable_bytes: int | None) -> Fit:
    """The fit of an uncertain peak into the memory available to tensors; if that is unknown, nothing is too large."""
    if not usable_bytes:
        return Fit.FITS
    if peak_bytes.low > usable_bytes:
        return Fit.TOO_LARGE
    return Fit.UNSURE if peak_bytes.high > usable_bytes else Fit.FITS
