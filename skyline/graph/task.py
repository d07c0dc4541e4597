"""The unit of work in the dependency graph, all tasks of a graph as columns, and the parts of an iteration.

A million tasks take 40 MB, and selection is vectorised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import (
    Codes,
    Flags,
    Ids,
    Indices,
    RowSequence,
    Times,
    coded,
    frozen,
    joined,
    without_unused,
)
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import BareTimes, Phase


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


ALL_BUT_LOADING = tuple(kind for kind in TaskKind if kind is not TaskKind.DATA)


class WorkClass(str, Enum):
    """The kind of computation, as far as number formats affect its speed."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    OTHER = "other"


HEAVY = (WorkClass.MATMUL, WorkClass.CONVOLUTION, WorkClass.ATTENTION)
"""Work that runs on matrix units."""
_NO_PRODUCT = re.compile(
    r"^triton_(poi|red|per)_|upsample|element_?wise|multi_tensor_apply|_workspace_|^convert|::convert|elemwise",
    re.IGNORECASE,
)
"""Kernels that multiply no matrices, although their names contain a product, such as one that they are fused with."""
_CLASSES = (
    (WorkClass.ATTENTION, re.compile(r"scaled_dot_product|flash|fmha|sdpa", re.IGNORECASE)),
    (WorkClass.CONVOLUTION, re.compile(r"conv|wgrad|dgrad|fprop|winograd|scudnn|8[48]cudnn", re.IGNORECASE)),
    (
        WorkClass.MATMUL,
        re.compile(
            r"gemm|matmul|einsum|cijk|nvjet|linear|lstm|gru|(?<![a-z])(add|addb|baddb|b|s|sp|hsp|sspadd)?mm(?![a-z])"
            r"|(?-i:(M|Addm|Bm|Baddbm|Addbm|Spm)m(?![a-z]))",
            re.IGNORECASE,
        ),
    ),
)


def is_operator(name: str) -> bool:
    """True for a task that is a call of a PyTorch operator."""
    return name.startswith("aten::")


@lru_cache(maxsize=1 << 14)
def work_class(name: str) -> WorkClass:
    """The class of an operator or kernel by its name: ``aten::addmm``, ``AddmmBackward0``, ``ampere_sgemm_128x64_nn``.

    ``volta_scudnn_…`` is a cuDNN convolution, ``Cijk_…`` a matrix product of AMD's libraries, ``nvjet_…`` one of
    cuBLAS from Hopper on.
    """
    if _NO_PRODUCT.search(name):
        return WorkClass.OTHER
    return next((kind for kind, pattern in _CLASSES if pattern.search(name)), WorkClass.OTHER)


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


KINDS = tuple(TaskKind)
"""The kind of each code in the column ``kind``; ``KIND`` is the inverse."""
KIND: Mapping[TaskKind, int] = {kind: code for code, kind in enumerate(KINDS)}
WORKS: tuple[WorkClass, ...] = tuple(WorkClass)
WORK: Mapping[WorkClass, int] = {work: code for code, work in enumerate(WORKS)}
PHASES = tuple(Phase)
PHASE: Mapping[Phase, int] = {phase: code for code, phase in enumerate(PHASES)}
ON_GPU: Flags = np.array([kind in (TaskKind.KERNEL, TaskKind.COPY) for kind in KINDS])
"""For each kind code whether such a task occupies a GPU stream."""

_DTYPES: dict[str, Any] = {
    "name": np.int32,
    "kind": np.uint8,
    "work": np.uint8,
    "lane": np.int32,
    "phase": np.uint8,
    "iteration": np.int32,
    "line": np.int32,
    "call_line": np.int32,
    "module": np.int32,
    "counts": np.int32,
    "recording_us": np.float64,
    "origin": np.int32,
}
_DEFAULTS: dict[str, int] = {
    "kind": KIND[TaskKind.CPU],
    "work": WORK[WorkClass.OTHER],
    "phase": PHASE[Phase.OTHER],
    "line": -1,
    "call_line": -1,
    "module": -1,
    "counts": 1,
    "origin": -1,
}


@dataclass(frozen=True, slots=True, eq=False)
class Tasks(RowSequence[Task]):
    """A sequence of tasks, stored as read-only columns of equal length.

    ``name`` and ``lane`` index ``names`` and ``lanes``; ``kind``, ``work`` and ``phase`` are codes. The other columns
    correspond to the attributes of ``Task`` (``counts`` to ``count``). ``tasks[i]`` creates a ``Task`` from row ``i``.
    """

    names: tuple[str, ...]
    lanes: tuple[str, ...]
    name: Ids
    kind: Codes
    work: Codes
    lane: Ids
    phase: Codes
    iteration: Ids
    line: Ids
    call_line: Ids
    module: Ids
    counts: Ids
    recording_us: Times
    origin: Ids
    _rows: tuple[Task, ...] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Tasks:
        """The columns of individual tasks."""
        if isinstance(tasks, Tasks):
            return tasks
        names, name = coded([task.name for task in tasks])
        lanes, lane = coded([task.lane for task in tasks])
        return cls.columns(
            len(tasks),
            names,
            lanes,
            rows=tuple(tasks),
            name=name,
            lane=lane,
            kind=[KIND[task.kind] for task in tasks],
            work=[WORK[task.work] for task in tasks],
            phase=[PHASE[task.phase] for task in tasks],
            iteration=[task.iteration for task in tasks],
            line=[task.line for task in tasks],
            call_line=[task.call_line for task in tasks],
            module=[task.module for task in tasks],
            counts=[task.count for task in tasks],
            recording_us=[task.recording_us for task in tasks],
            origin=[task.origin for task in tasks],
        )

    @classmethod
    def columns(
        cls,
        count_of_tasks: int,
        names: Sequence[str],
        lanes: Sequence[str],
        *,
        rows: tuple[Task, ...] | None = None,
        **given: npt.ArrayLike,
    ) -> Tasks:
        """Build from named columns; omitted columns get the default for an unknown value of ``Task``.

        Raises:
            ValueError: a column has another length.
            TypeError: the column does not exist.
        """
        made: dict[str, npt.NDArray[Any]] = {}
        for column, dtype in _DTYPES.items():
            if column in given:
                made[column] = frozen(given.pop(column), dtype)
            else:
                made[column] = frozen(np.full(count_of_tasks, _DEFAULTS.get(column, 0), dtype), dtype)
            if made[column].shape != (count_of_tasks,):
                raise ValueError(f"column {column}: {made[column].shape} is not ({count_of_tasks},)")
        if given:
            raise TypeError(f"tasks have no column {', '.join(given)}")
        return cls(tuple(names), tuple(lanes), **made, _rows=rows)

    def __len__(self) -> int:
        return len(self.name)

    def _made(self, part: slice) -> Iterator[Task]:
        return map(
            Task,
            map(self.names.__getitem__, self.name[part].tolist()),
            map(KINDS.__getitem__, self.kind[part].tolist()),
            map(WORKS.__getitem__, self.work[part].tolist()),
            map(self.lanes.__getitem__, self.lane[part].tolist()),
            map(PHASES.__getitem__, self.phase[part].tolist()),
            self.iteration[part].tolist(),
            self.line[part].tolist(),
            self.call_line[part].tolist(),
            self.module[part].tolist(),
            self.counts[part].tolist(),
            self.recording_us[part].tolist(),
            self.origin[part].tolist(),
        )

    def lane_code(self, lane: str) -> int:
        """The code of the lane in the column ``lane``; -1 if no task is on that lane."""
        return self.lanes.index(lane) if lane in self.lanes else -1

    def named(self, wanted: Callable[[str], object]) -> Flags:
        """Flags of the tasks whose name is wanted; each distinct name is asked about once."""
        return np.array([bool(wanted(name)) for name in self.names], np.bool_)[self.name]

    def changed(self, **given: Any) -> Tasks:
        """Replace the given columns or tables; the others are shared."""
        made = {
            column: frozen(values, _DTYPES[column]) if column in _DTYPES else tuple(values)
            for column, values in given.items()
        }
        return replace(self, **made, _rows=None)

    def taken(self, chosen: Indices | Ids) -> Tasks:
        """The chosen rows in the given order; a row may occur several times."""
        lanes, lane = without_unused(self.lanes, self.lane[chosen])
        made = {column: frozen(getattr(self, column)[chosen], _DTYPES[column]) for column in _DTYPES}
        made["lane"] = frozen(lane, np.int32)
        rows = None if self._rows is None else tuple(map(self._rows.__getitem__, chosen.tolist()))
        return replace(self, lanes=lanes, **made, _rows=rows)

    def joined(self, *others: Tasks) -> Tasks:
        """These rows followed by those of the others, with common tables of names and lanes."""
        parts = (self, *others)
        made: dict[str, npt.NDArray[Any]] = {
            column: frozen(np.concatenate([getattr(part, column) for part in parts]), dtype)
            for column, dtype in _DTYPES.items()
            if column not in ("name", "lane")
        }
        names, name = joined([(part.names, part.name) for part in parts])
        lanes, lane = joined([(part.lanes, part.lane) for part in parts])
        return replace(self, names=names, lanes=lanes, name=name, lane=lane, **made, _rows=None)


class Part(str, Enum):
    """A part of the iteration with its own unrecorded time.

    ``LOADER`` is time inside a data loader's ``__next__``. Only a recording can identify batches that the script
    fetches itself; they belong to ``REST``, with the forward pass and all other work.
    """

    LOADER = "loader"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    REST = "rest"


PARTS = tuple(Part)
"""The part of each code in ``parts_of``."""


def parts_of(tasks: Tasks) -> Codes:
    """The part of each task, as a code."""
    return _PART_CODES[tasks.kind, tasks.phase]


def _part(kind: TaskKind, phase: Phase) -> Part:
    if kind is TaskKind.DATA:
        return Part.LOADER
    if phase is Phase.BACKWARD:
        return Part.BACKWARD
    if phase is Phase.OPTIMIZER:
        return Part.OPTIMIZER
    return Part.REST


_PART_CODES: Codes = np.array(
    [[PARTS.index(_part(kind, phase)) for phase in PHASES] for kind in KINDS], np.uint8
)


def part_shares(times: BareTimes) -> dict[Part, float]:
    """The share of each part in a step: medians over the steps, normalised to sum to 1.

    Shares are averaged instead of times, because they stay constant while the machine is temporarily slow.
    """
    shares = {
        part: _median_share(samples, times.steps_ms)
        for part, samples in (
            (Part.LOADER, times.data_ms),
            (Part.BACKWARD, times.backward_ms),
            (Part.OPTIMIZER, times.optimizer_ms),
        )
    }
    known = sum(shares.values())
    if known > 1.0:
        shares = {part: share / known for part, share in shares.items()}
    shares[Part.REST] = max(0.0, 1.0 - known)
    return shares


def _median_share(samples: Sequence[float], steps: Sequence[float]) -> float:
    shares = [sample / step for sample, step in zip(samples, steps, strict=False) if step > 0]
    return median(shares) if shares else 0.0
