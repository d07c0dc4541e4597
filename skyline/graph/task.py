"""The unit of work in the dependency graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyline.trace.phase import Phase


class TaskKind(str, Enum):
    """The resource that a task occupies while it runs."""

    CPU = "cpu"
    DATA = "data"
    """Producing a batch inside a data loader, or waiting for it."""
    LAUNCH = "launch"
    """A runtime call that launches work on a GPU stream."""
    SYNC = "sync"
    """A runtime call that waits for a GPU stream. It holds its own cost; the simulation computes the waiting time."""
    KERNEL = "kernel"
    COPY = "copy"


class WorkClass(str, Enum):
    """The kind of computation, as far as number formats affect its speed."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    OTHER = "other"


_NAMES = (
    (WorkClass.CONVOLUTION, ("conv", "wgrad", "dgrad", "fprop", "winograd", "scudnn", "84cudnn", "88cudnn")),
    (WorkClass.ATTENTION, ("scaled_dot_product", "flash", "fmha")),
    (WorkClass.MATMUL, ("mm", "gemm", "linear", "matmul", "einsum", "lstm", "gru", "cijk")),
)


def work_class(name: str) -> WorkClass:
    """The class of an operator or kernel by its name: ``aten::addmm``, ``AddmmBackward0``, ``ampere_sgemm_128x64_nn``.

    ``volta_scudnn_…`` is a cuDNN convolution, ``Cijk_…`` a matrix product of AMD's libraries.
    """
    # ``ncclDevComm`` and similar parts of collective kernels' names do not indicate a product.
    lowered = name.lower().replace("comm", "")
    for kind, marks in _NAMES:
        if any(mark in lowered for mark in marks):
            return kind
    return WorkClass.OTHER


@dataclass(frozen=True, slots=True)
class Task:
    """One schedulable piece of work. The graph stores its duration and gap in columns.

    ``line`` and ``call_line`` index ``Trace.lines``, ``module`` indexes ``Trace.modules``; -1 if unknown. ``count`` is
    the number of merged records, ``recording_us`` the approximate recording overhead in their time. ``origin`` is the
    row of the recording, an index of ``Trace.records`` or of a profiler trace's events; -1 for tasks that a change
    added. A merged task has the origin of its first part.
    """

    name: str
    kind: TaskKind
    work: WorkClass
    lane: str
    phase: Phase
    iteration: int
    line: int = -1
    call_line: int = -1
    module: int = -1
    count: int = 1
    recording_us: float = 0.0
    origin: int = -1
