"""The parts of one training iteration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(str, Enum):
    """The part of the iteration that is running."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Milliseconds per phase of one iteration; they sum to the iteration time."""

    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    optimizer: float = 0.0
    communication: float = 0.0
    other: float = 0.0

    def __getitem__(self, phase: Phase) -> float:
        return float(getattr(self, phase.value))

    @property
    def total(self) -> float:
        """The iteration time, in ms: the sum of the phases."""
        return sum(self[phase] for phase in Phase)

    @classmethod
    def of(cls, times: dict[Phase, float]) -> PhaseTimes:
        """Build from a mapping; missing phases are zero."""
        return cls(**{phase.value: times.get(phase, 0.0) for phase in Phase})
