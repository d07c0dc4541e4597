"""Energy of an iteration by the hardware's own counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PowerFact:
    """Energy of unrecorded iterations, including everything else that the counted hardware did meanwhile.

    ``of`` names the hardware: the board of a GPU (``NVML``), or the processors without their memory (``RAPL``).
    ``joules`` is the mean energy of one iteration over ``window_s``; ``mean_watts`` is the mean power in that window.
    """

    source: Literal["NVML", "RAPL"]
    of: str
    joules: float
    mean_watts: float
    iterations: int
    window_s: float
