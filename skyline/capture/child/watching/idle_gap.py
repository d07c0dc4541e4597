"""Time in which a device had no work between the end of an iteration and the next batch."""

from __future__ import annotations


class IdleGap:
    """Two events on the device: after the last work of an iteration, and when the host has the next batch.

    The device reaches the second right after the first if it still had work, else when the host gave it the second.
    Idle time inside forward and backward passes is not seen.
    """

    def __init__(self, backend, index, first):
        self._backend = backend
        self._index = index
        self._first = first
        self._second = None

    @classmethod
    def begin(cls, backend, index):
        """At the end of an iteration; None where events measure no time."""
        first = backend.event_with_query(index)
        return cls(backend, index, first) if first is not None else None

    def batch_arrived(self):
        """The first batch after it is there."""
        if self._second is None:
            self._second = self._backend.event(self._index)

    def seconds(self):
        """The gap; None if there was no batch, or if the device is not there yet."""
        if self._second is None or not self._second.query():
            return None
        return self._first.elapsed_time(self._second) / 1e3
