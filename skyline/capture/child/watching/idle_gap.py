"""Measures the time in which a device had no work between the end of an iteration and the next batch."""

from __future__ import annotations


class IdleGap:
    """Two events on the device: one after the last work of an iteration, one when the host has the next batch.

    If the device still had work, it reaches the second right after the first; otherwise when the host records the
    second. Idle time within forward and backward passes is not seen.
    """

    def __init__(self, backend, index, first):
        self._backend = backend
        self._index = index
        self._first = first
        self._second = None

    @classmethod
    def begin(cls, backend, index):
        """Start at the end of an iteration; None if events measure no time."""
        first = backend.event_with_query(index)
        return cls(backend, index, first) if first is not None else None

    def batch_arrived(self):
        """Record the arrival of the next batch; only the first call counts."""
        if self._second is None:
            self._second = self._backend.event(self._index)

    def seconds(self):
        """The gap in s; None if there was no batch, or if the device has not reached the second event yet."""
        if self._second is None or not self._second.query():
            return None
        return self._first.elapsed_time(self._second) / 1e3
