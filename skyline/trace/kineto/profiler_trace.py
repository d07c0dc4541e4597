"""One process's PyTorch profiler trace, normalised: columns of numpy arrays, one row an event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skyline.trace.kineto.category import Category
from skyline.trace.kineto.notes import Note


@dataclass(frozen=True, slots=True)
class HostThread:
    """A thread of the profiled process. ``id`` is what the operating system or the profiler called it."""

    process: str
    id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """An accelerator as the trace describes it; 0 and ``""`` where it does not say."""

    index: int
    name: str = ""
    memory_bytes: int = 0
    compute_major: int = 0
    compute_minor: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True, slots=True)
class MarkedSteps:
    """The training steps that the script marked by ``profiler.step()``, in order of time; may be none."""

    number: NDArray[np.int64]
    start_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    event: NDArray[np.int32]
    """Row of the span in the trace."""

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Waits:
    """What recorded waits (rows of category ``SYNC``) wait for; empty unless the profiler was asked for them."""

    event: NDArray[np.int32]
    kind: NDArray[np.int32]
    """Into ``strings``: ``Stream Sync``, ``Stream Wait Event``, ``Event Sync``, ``Context Sync``."""
    stream: NDArray[np.int32]
    """The stream that is waited for, -1 where none is named."""
    recorded_by: NDArray[np.int64]
    """Correlation of the call that recorded the awaited event, 0 where none is named."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collective operations with what they moved (operators and, in recent traces, their kernels)."""

    event: NDArray[np.int32]
    name: NDArray[np.int32]
    """Into ``strings``, as ``allreduce``."""
    element_type: NDArray[np.int32]
    """Into ``strings``, as ``Float``."""
    elements_in: NDArray[np.int64]
    elements_out: NDArray[np.int64]
    group: NDArray[np.int32]
    """Into ``strings``: the process group's name or number."""
    group_size: NDArray[np.int32]
    ranks: NDArray[np.int32]
    """Into ``strings``, as ``[0, 1]``; long lists may have been shortened by the profiler."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Allocations:
    """Allocations (positive sizes) and releases (negative) of tensors, where the profiler recorded memory."""

    time_us: NDArray[np.float64]
    size_bytes: NDArray[np.int64]
    device: NDArray[np.int32]
    """-1 for the host's memory."""
    allocated_bytes: NDArray[np.int64]
    """The allocator's total after it; -1 where not recorded."""

    def __len__(self) -> int:
        return len(self.time_us)


@dataclass(frozen=True, slots=True)
class ProfilerTrace:
    """Events by start, of equal starts the longest first, of equal spans the outermost first.

    Times are µs since the first event; ``base_ns`` is that event's time (since 1970 where the profiler used
    the clock), and what traces of several ranks are aligned by at first. ``name``, ``stack``, ``shapes``,
    ``types`` and ``module_path`` are rows of ``strings``; row 0 is the empty string.
    """

    category: NDArray[np.uint8]
    start_us: NDArray[np.float64]
    duration_us: NDArray[np.float64]
    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    """Row of ``threads``; -1 for what lies on a stream."""
    device: NDArray[np.int32]
    """-1 for what lies on a host thread."""
    stream: NDArray[np.int32]
    """-1 for what lies on a host thread, and where the trace does not say."""
    correlation: NDArray[np.int64]
    """Joins GPU work and waits to the call that started them; 0 where there is none. One may occur often."""
    external_id: NDArray[np.int64]
    """Joins calls and GPU work to the operator above them; 0 where there is none."""
    sequence: NDArray[np.int64]
    """Autograd's number, shared by a forward operator and its backward; -1 where there is none."""
    forward_thread: NDArray[np.int64]
    """Autograd's own number of the thread that ran the forward operator; 0 on forward operators."""
    record_function: NDArray[np.int64]
    """The id by which PyTorch's execution traces name the same operator; 0 where there is none."""
    size_bytes: NDArray[np.int64]
    """What a copy or a fill moved; 0 where not said."""
    python_id: NDArray[np.int64]
    python_parent: NDArray[np.int64]
    python_module: NDArray[np.int64]
    """Number of the ``nn.Module`` instance called, -1 where the function is no module's call."""
    stack: NDArray[np.int32]
    """Call stack, innermost frame first and frames apart by ``;``."""
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
    """From the first event's start to the last one's end."""
    rank: int
    """-1 where the trace does not say."""
    world_size: int
    """0 where the trace does not say."""
    dialect: str
    """``autograd`` (before Kineto), ``2020`` (a bare list), ``2021`` (capitalised categories) or ``current``."""
    vendor: str
    """``nvidia``, ``amd`` or ``""`` where nothing ran on a GPU or it is another's."""
    notes: tuple[Note, ...]
    """What was repaired, left out or cut off."""

    def __len__(self) -> int:
        return len(self.start_us)

    @property
    def end_us(self) -> NDArray[np.float64]:
        """When each event ended."""
        return self.start_us + self.duration_us

    def of(self, *categories: Category) -> NDArray[np.intp]:
        """Rows of some categories, in order."""
        return np.flatnonzero(np.isin(self.category, [int(kind) for kind in categories]))

    def name_of(self, event: int) -> str:
        """An event's name."""
        return self.strings[int(self.name[event])]
