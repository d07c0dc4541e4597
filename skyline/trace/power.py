"""What the hardware's own counters say of the energy of an iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PowerFact:
    """Energy of bare iterations, with all else that the counted part of the machine did meanwhile.

    ``of`` names that part: the board of a GPU (``NVML``), or the processors without their memory (``RAPL``).
    ``joules`` is for one iteration, the mean of so many over ``window_s``; ``mean_watts`` is the power all the while.
    """

    source: Literal["NVML", "RAPL"]
    of: str
    joules: float
    mean_watts: float
    iterations: int
    window_s: float
