"""The shares of an iteration by what it waits for."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The shares of an iteration by what it waits for; they sum to 1."""

    cpu: float
    gpu_compute: float
    gpu_communication: float
    launch: float
    data: float
    idle: float
