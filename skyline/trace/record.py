"""The rows of a recorded iteration: who was busy when, on behalf of which line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyline.trace.phase import Phase
from skyline.trace.shape import OperatorShape


class RecordKind(str, Enum):
    """What kind of work a record is."""

    OPERATOR = "operator"
    """A PyTorch operator called from Python, with all that it calls in turn."""
    PYTHON = "python"
    """Interpreter and dispatch time between operators: becomes the gap of the task before it."""
    DATA = "data"
    """Waiting for, or producing, the next batch inside a data loader."""
    KERNEL = "kernel"
    """Work on a GPU stream, linked to its launch by ``correlation``."""
    COPY = "copy"
    """A memory copy on a GPU stream."""
    RUNTIME = "runtime"
    """A call into the device runtime (launch, synchronise), linked by ``correlation``."""


ON_DEVICE = frozenset({RecordKind.KERNEL, RecordKind.COPY})
"""What runs on a stream of a device, and not on a thread."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the person's code; ``function`` is the qualified name around it where it is known."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One stretch of work on one lane.

    Records of a lane do not overlap; those of the main thread cover each recorded iteration without holes.
    ``start_us`` counts from the start of the recording. ``line`` indexes ``Trace.lines`` (-1: no line of
    the person's is responsible) and is the deepest user frame; for backward work it is the line of the
    forward operator that caused it. ``call_line`` is the line in the training loop's own body that was
    executing (``loss.backward()``, ``optimizer.step()``), -1 if unknown. ``module`` indexes
    ``Trace.modules`` (-1: outside any module); optimizer work shows its parameter group there. ``shape`` indexes
    ``Trace.shapes`` (-1: not known). ``flops`` is the arithmetic of the record with all that it contains.
    ``function`` indexes ``Trace.functions``: the library function that the line called (-1: none).
    ``recording_us`` is about how much of the duration recording itself took.
    """

    name: str
    kind: RecordKind
    phase: Phase
    lane: str
    iteration: int
    start_us: float
    duration_us: float
    line: int = -1
    call_line: int = -1
    module: int = -1
    correlation: int = 0
    shape: int = -1
    flops: int = 0
    function: int = -1
    recording_us: float = 0.0

    @property
    def end_us(self) -> float:
        """When the work ended, from the start of the recording."""
        return self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class Allocation:
    """A change of the live tensor memory: positive when a block is taken, negative when it is given back.

    ``line`` and ``phase`` are those of the operator running at the time; ``address`` pairs a free with its
    allocation, and may belong to a block taken before the recording began.
    """

    time_us: float
    size_bytes: int
    address: int
    phase: Phase
    line: int = -1


@dataclass(frozen=True, slots=True)
class IterationMark:
    """Start and end of one recorded iteration, in the time base of its records."""

    index: int
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class Trace:
    """A few recorded iterations.

    ``allocations`` are those of one iteration only, put at the times of the last one here, and ``MemoryFact`` is
    taken at its end: frees of blocks from before the recording are not in the record, so that earlier iterations do
    not add up.
    """

    iterations: tuple[IterationMark, ...]
    lines: tuple[CodeLine, ...]
    modules: tuple[str, ...]
    records: tuple[Record, ...]
    allocations: tuple[Allocation, ...] = ()
    shapes: tuple[OperatorShape, ...] = ()
    functions: tuple[str, ...] = ()
