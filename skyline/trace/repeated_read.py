"""A batch of a traced script with partly repeated samples: only some were read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """A read by a loader between two moments of the trace's nominal time.

    ``times`` is the number of delivered samples per sample read.
    """

    start_us: float
    end_us: float
    times: float
