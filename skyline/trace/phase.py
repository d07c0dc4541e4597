"""The parts of one training iteration, and their unrecorded times."""

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


@dataclass(frozen=True, slots=True)
class BareTimes:
    """Times of unrecorded iterations.

    ``steps_ms`` are whole iterations, in order. The other tuples have the same length and hold the parts that are
    measurable without a profiler: time inside the data loader, inside ``backward()`` and inside optimizer steps. The
    remainder of an iteration is the forward pass and everything else. ``memory_bytes`` is the memory in use at the end
    of each iteration: of tensors on a GPU, of the whole process on a CPU; empty if unknown.

    On a GPU an iteration lasts from the end of one iteration on the device to the end of the next, because the script
    launches ahead of the device. The parts are host times, during the iteration or ahead of it. Their sum may exceed a
    single iteration, and the remainder is not forward work if the host only waits.
    """

    steps_ms: tuple[float, ...]
    data_ms: tuple[float, ...]
    backward_ms: tuple[float, ...]
    optimizer_ms: tuple[float, ...]
    memory_bytes: tuple[int, ...] = ()
