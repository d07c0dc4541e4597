"""The shares of an iteration by what it waits for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the iteration waits for, as shares that sum to 1."""

    cpu: float
    gpu_compute: float
    gpu_communication: float
    launch: float
    data: float
    idle: float
