"""The rows of a recorded iteration: work on each lane over time, its shapes, and the line responsible for it."""

from __future__ import annotations

from enum import Enum

from skyline.lazy_dataclass import dataclass


class Phase(str, Enum):
    """The part of the iteration that is running."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    OTHER = "other"


PASSES = (Phase.FORWARD, Phase.BACKWARD)
"""The passes over the model."""


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
    host_ms: tuple[float, ...] = ()
    """Time of the script's thread from the start of an iteration to the start of the next; empty if unknown.

    While the thread is far ahead of a GPU, it waits in launches: only iterations that begin with an idle GPU show the
    host's own time.
    """
    saving_ms: tuple[float, ...] = ()
    """Time in which weights are written to files. This tuple and those below are empty if unknown."""
    logging_ms: tuple[float, ...] = ()
    """Time in handlers of ``logging`` and in TensorBoard's writer."""
    evaluation_ms: tuple[float, ...] = ()
    """Time in which a model is switched to evaluation, if it is then called without gradients."""
    rollout_ms: tuple[float, ...] = ()
    """Time from the first to the last step of an environment before an update."""


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """The shapes of one operator call; equal calls share one row of ``Trace.shapes``.

    ``inputs`` and ``outputs`` are the dimensions of the tensors in argument order. ``dtypes`` are the number formats of
    the inputs (``float32``, ``bfloat16``, …), ``output_dtypes`` those of the outputs. ``flops`` counts a multiply-add
    as two; 0 for operators without significant arithmetic. ``bytes_moved`` is the minimum of bytes read and written.
    ``layout`` is the memory format of the image tensors: ``channels last``, ``mixed`` if the operator converts one
    format to another, empty for channels first or if unknown.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    outputs: tuple[tuple[int, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    flops: int = 0
    bytes_moved: int = 0
    layout: str = ""


class RecordKind(str, Enum):
    """The kind of work of a record."""

    OPERATOR = "operator"
    """A PyTorch operator called from Python, including all operators that it calls."""
    PYTHON = "python"
    """Interpreter and dispatch time between operators; becomes the gap of the preceding task."""
    DATA = "data"
    """Producing the next batch inside a data loader, or waiting for it."""
    KERNEL = "kernel"
    """Work on a GPU stream, linked to its launch by ``correlation``."""
    COPY = "copy"
    """A memory copy on a GPU stream."""
    RUNTIME = "runtime"
    """A call into the device runtime (launch, synchronise), linked by ``correlation``."""


ON_DEVICE = frozenset({RecordKind.KERNEL, RecordKind.COPY})
"""The kinds that run on a device stream, not on a thread."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the user's code; ``function`` is the qualified name of its function, if known."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One period of work on one lane.

    Records of a lane do not overlap. Records of the main thread cover each recorded iteration without gaps.
    ``start_us`` counts from the start of the recording. ``line`` indexes ``Trace.lines`` (-1: no line of the user's
    code) and is the innermost user frame; for backward work it is the line of the corresponding forward operator.
    ``call_line`` is the executing line in the body of the training loop (``loss.backward()``, ``optimizer.step()``), -1
    if unknown. ``module`` indexes ``Trace.modules`` (-1: outside any module); for optimizer work it is the parameter
    group. ``shape`` indexes ``Trace.shapes`` (-1: unknown). ``flops`` is the arithmetic of the record including nested
    operators. ``function`` indexes ``Trace.functions``: the library function that the line called (-1: none).
    ``recording_us`` is the approximate overhead of recording within the duration.
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
        """End of the work, in µs from the start of the recording."""
        return self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class Allocation:
    """A change of the live tensor memory: positive for an allocation, negative for a free.

    ``line`` and ``phase`` belong to the operator running at the time. ``address`` pairs a free with its allocation;
    the block may be older than the recording.
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

    ``allocations`` belong to one iteration only, placed at the times of the last one. ``MemoryFact`` is taken at its
    end. Earlier iterations do not add up, because frees of blocks that are older than the recording are not recorded.
    """

    iterations: tuple[IterationMark, ...]
    lines: tuple[CodeLine, ...]
    modules: tuple[str, ...]
    records: tuple[Record, ...]
    allocations: tuple[Allocation, ...] = ()
    shapes: tuple[OperatorShape, ...] = ()
    functions: tuple[str, ...] = ()
    sampled: bool = False
    """True if the records are samples of the script's thread: an iteration with very many operators."""
