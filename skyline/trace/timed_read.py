"""The actual time to read a batch of a traced script: data are read for real, only the model is not computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedRead:
    """A read by a loader between two moments of the trace's nominal time, and the time of such a batch.

    ``took_us`` is the shortest time of the loader's earlier batches of the same size, read without tracing.
    """

    start_us: float
    end_us: float
    took_us: float
