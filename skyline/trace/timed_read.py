"""How long a traced script really took to read a batch: data are read for real, only the model is not computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedRead:
    """What a loader read between two moments of the nominal time of the trace, and how long such a batch took.

    ``took_us`` is the shortest of the same loader's earlier batches of as many samples, read without being traced.
    """

    start_us: float
    end_us: float
    took_us: float
