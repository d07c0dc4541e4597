"""One process's PyTorch profiler trace, normalised: columns of numpy arrays, one row per event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.notes import Note


@dataclass(frozen=True, slots=True)
class HostThread:
    """A thread of the profiled process. ``id`` is the identifier from the operating system or the profiler."""

    process: str
    id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """An accelerator as described by the trace; 0 and ``""`` for missing values."""

    index: int
    name: str = ""
    memory_bytes: int = 0
    compute_major: int = 0
    compute_minor: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True, slots=True)
class MarkedSteps:
    """The training steps that the script marked by ``profiler.step()``, in time order; possibly none."""

    number: NDArray[np.int64]
    start_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    event: NDArray[np.int32]
    """Row of the span in the trace."""

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Waits:
    """The targets of recorded waits (rows of category ``SYNC``); empty unless the profiler recorded waits."""

    event: NDArray[np.int32]
    stream: NDArray[np.int32]
    """The awaited stream; -1 if not named."""
    recorded_by: NDArray[np.int64]
    """Correlation number of the call that recorded the awaited event; 0 if not named."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collective operations with the transferred data (operators and, in recent traces, their kernels)."""

    event: NDArray[np.int32]
    name: NDArray[np.int32]
    """Row of ``strings``, such as ``allreduce``."""
    element_type: NDArray[np.int32]
    """Row of ``strings``, such as ``Float``."""
    elements_in: NDArray[np.int64]
    group: NDArray[np.int32]
    """Row of ``strings``: the process group's name or number."""
    ranks: NDArray[np.int32]
    """Row of ``strings``, such as ``[0, 1]``; the profiler may have shortened long lists."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Allocations:
    """Allocations and releases of tensors, if the profiler recorded memory."""

    time_us: NDArray[np.float64]
    device: NDArray[np.int32]
    """-1 for host memory."""
    allocated_bytes: NDArray[np.int64]
    """The allocator's total after the event; -1 if not recorded."""

    def __len__(self) -> int:
        return len(self.time_us)


@dataclass(frozen=True, slots=True)
class ProfilerTrace:
    """Events sorted by start, then longest first, then outermost first.

    Times are in µs since the first event. ``base_ns`` is the time of that event (since 1970 if the profiler used the
    clock); traces of several ranks are first aligned by it. ``name``, ``stack``, ``shapes``, ``types`` and
    ``module_path`` are rows of ``strings``; row 0 is the empty string.
    """

    category: NDArray[np.uint8]
    start_us: NDArray[np.float64]
    duration_us: NDArray[np.float64]
    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    """Row of ``threads``; -1 for events on a stream."""
    device: NDArray[np.int32]
    """-1 for events on a host thread."""
    stream: NDArray[np.int32]
    """-1 for events on a host thread, and if unknown."""
    correlation: NDArray[np.int64]
    """Connects GPU work and waits with the call that started them; 0 if there is none. Values may repeat."""
    sequence: NDArray[np.int64]
    """Autograd's sequence number, shared by a forward operator and its backward; -1 if there is none."""
    forward_thread: NDArray[np.int64]
    """Autograd's own number of the thread that ran the forward operator; 0 on forward operators."""
    size_bytes: NDArray[np.int64]
    """Bytes moved by a copy or fill; 0 if unknown."""
    occupancy: NDArray[np.float32]
    """The profiler's estimate of a kernel's resident warps, in percent of the maximum. Below 0 if unknown."""
    python_module: NDArray[np.int64]
    """Number of the called ``nn.Module`` instance; -1 if the function is not a module's call."""
    stack: NDArray[np.int32]
    """Call stack, innermost frame first, frames separated by ``;``."""
    module_path: NDArray[np.int32]
    shapes: NDArray[np.int32]
    """Shapes of the inputs, as JSON."""
    types: NDArray[np.int32]
    """Types of the inputs, as JSON."""

    strings: tuple[str, ...]
    threads: tuple[HostThread, ...]
    steps: MarkedSteps
    waits: Waits
    collectives: Collectives
    allocations: Allocations
    devices: tuple[RecordedDevice, ...]
    base_ns: int
    duration_total_us: float
    """Time from the first event's start to the last one's end, in µs."""
    rank: int
    """-1 if unknown."""
    world_size: int
    """0 if unknown."""
    dialect: str
    """``autograd`` (before Kineto), ``2020`` (a bare list), ``2021`` (capitalised categories) or ``current``."""
    vendor: str
    """``nvidia``, ``amd``, or ``""`` without GPU work or for other vendors."""
    notes: tuple[Note, ...]
    """Notes on repaired, omitted and missing parts."""

    def __len__(self) -> int:
        return len(self.start_us)

    @property
    def end_us(self) -> NDArray[np.float64]:
        """The end of each event, in µs."""
        return self.start_us + self.duration_us

    def of(self, *categories: Category) -> NDArray[np.intp]:
        """Rows of the given categories, in order."""
        return np.flatnonzero(np.isin(self.category, [int(kind) for kind in categories]))

    def name_of(self, event: int) -> str:
        """An event's name."""
        return self.strings[int(self.name[event])]
