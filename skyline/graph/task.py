"""The unit of work in the dependency graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyline.trace.phase import Phase


class TaskKind(str, Enum):
    """What a task occupies while it runs."""

    CPU = "cpu"
    DATA = "data"
    """Producing or awaiting a batch inside a data loader."""
    LAUNCH = "launch"
    """A runtime call that hands work to a GPU stream."""
    SYNC = "sync"
    """A runtime call that waits for a GPU stream; holds only its own cost, the waiting re-emerges."""
    KERNEL = "kernel"
    COPY = "copy"


class WorkClass(str, Enum):
    """What a task computes, as far as number formats make a difference to its speed."""

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
    """Of an operator or kernel, by its name: ``aten::addmm``, ``AddmmBackward0``, ``ampere_sgemm_128x64_nn``.

    ``volta_scudnn_…`` is a convolution of cuDNN's, ``Cijk_…`` a matrix product of AMD's libraries.
    """
    # ``ncclDevComm`` and its like, in the names of collectives' kernels, are no product.
    lowered = name.lower().replace("comm", "")
    for kind, marks in _NAMES:
        if any(mark in lowered for mark in marks):
            return kind
    return WorkClass.OTHER


@dataclass(frozen=True, slots=True)
class Task:
    """One schedulable piece of work. Its duration and gap are kept in the graph, beside all others.

    ``line`` and ``call_line`` index ``Trace.lines``, ``module`` indexes ``Trace.modules``; -1 where unknown.
    ``count`` is how many records were merged into it, ``recording_us`` about how much of their time recording
    itself took. ``origin`` is the row of the recording that it was made of, an index of ``Trace.records`` or of a
    profiler trace's events; -1 for what a change added. Of merged tasks it is that of the first.
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
