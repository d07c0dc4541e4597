"""The time to load batches: measured on this machine once, so that its noise is no feature of a predicted curve."""

from __future__ import annotations

from dataclasses import replace

from skyline.trace.profile import Profile


class LoadingRate:
    """The time per byte of the first traced point that loads batches, which all later points take over."""

    def __init__(self) -> None:
        self._us_per_byte: float | None = None

    def applied(self, traced: Profile) -> Profile:
        """The trace with that rate; unchanged if it loads nothing that was timed."""
        reads = traced.timed_reads
        bytes_read = sum(sum(one.tensor_bytes) for one in reads)
        took_us = sum(one.took_us for one in reads)
        if not bytes_read or not took_us:
            return traced
        if self._us_per_byte is None:
            self._us_per_byte = took_us / bytes_read
        factor = self._us_per_byte * bytes_read / took_us
        return replace(traced, timed_reads=tuple(replace(one, took_us=one.took_us * factor) for one in reads))
