"""A batch of a traced script for which some samples were read and the others repeat those."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """What a loader read between two moments of the nominal time of the trace, and what it stands for.

    ``times`` is how many samples were delivered for each that was read.
    """

    start_us: float
    end_us: float
    times: float
