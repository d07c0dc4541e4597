"""PyTorch's execution traces: which operator works on what another one made, which no profiler trace says.

They are written by ``torch.profiler.ExecutionTraceObserver`` and hold no times. Beside a profiler trace of the
same run they add dependencies through data, between threads and streams as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.errors import UsageError
from skyline.trace.kineto.container import pieces
from skyline.trace.kineto.notes import Notes
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.table import integers


@dataclass(frozen=True, slots=True)
class ExecutionTrace:
    """Operators and ranges, one row a node, in order of their beginning; and what flowed between them."""

    name: tuple[str, ...]
    record_function: NDArray[np.int64]
    """The id that profiler traces of the same run call ``Record function id``; 0 where there is none."""
    parent: NDArray[np.int32]
    """Row of the enclosing node, -1 for a root."""
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    """``target`` reads what ``source`` made or wrote into last."""

    def __len__(self) -> int:
        return len(self.name)


class _Attribute(msgspec.Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    id: int
    name: str = ""
    ctrl_deps: int | None = None
    parent: int | None = None
    rf_id: int = 0
    attrs: list[_Attribute] = []
    inputs: Any = None
    outputs: Any = None


class _Root(msgspec.Struct):
    nodes: list[_Node]


def read_execution_trace(path: Path) -> ExecutionTrace:
    """An execution trace, plain or gzip, of schema 1.0 to 1.1. Raises UsageError for anything else."""
    text = b"".join(pieces(Path(path), Notes()))
    try:
        nodes = msgspec.json.decode(text, type=_Root).nodes
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} is damaged or no PyTorch execution trace: {error}",
            hint="Name what torch.profiler.ExecutionTraceObserver wrote.",
        ) from error
    # Nodes are written when they end; ids count their beginnings.
    nodes.sort(key=lambda node: node.id)
    row_of = {node.id: row for row, node in enumerate(nodes)}
    above = [node.ctrl_deps if node.ctrl_deps is not None else node.parent for node in nodes]
    parent = np.array(
        [row_of.get(outer, -1) if outer is not None and outer != node.id else -1
         for node, outer in zip(nodes, above, strict=True)],
        np.int32,
    )  # fmt: skip
    source, target = _flows(nodes, parent)
    return ExecutionTrace(
        name=tuple(node.name for node in nodes),
        record_function=integers([_record_function(node) for node in nodes]),
        parent=parent,
        source=source,
        target=target,
    )


def rows_in(trace: ProfilerTrace, execution: ExecutionTrace) -> NDArray[np.int64]:
    """Row in a profiler trace of the same run for each node; -1 where it is not there or has another name."""
    event_of = {
        number: row
        for row, number in enumerate(cast("list[int]", trace.record_function.tolist()))
        if number > 0
    }
    numbers = cast("list[int]", execution.record_function.tolist())
    found = np.array([event_of.get(number, -1) for number in numbers], np.int64)
    same = [row >= 0 and trace.name_of(row) == name for row, name in zip(found, execution.name, strict=True)]
    return np.where(np.array(same, bool), found, -1)


def data_dependencies(trace: ProfilerTrace, execution: ExecutionTrace) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs of rows of a profiler trace, (source, target), where the target reads what the source made.

    Raises UsageError where the two are not of the same run.
    """
    row = rows_in(trace, execution)
    if not (row >= 0).any():
        raise UsageError(
            "The execution trace and the profiler trace share no operator: they are of different runs",
            hint="Record both at once: profile(..., execution_trace_observer=ExecutionTraceObserver()).",
        )
    source, target = row[execution.source], row[execution.target]
    both = (source >= 0) & (target >= 0)
    return source[both], target[both]


def _record_function(node: _Node) -> int:
    value = next((one.value for one in node.attrs if one.name == "rf_id"), node.rf_id)
    return value if isinstance(value, int) else 0


def _flows(nodes: list[_Node], parent: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """From the operator that had a storage as a result last to the one that takes it as an input.

    Of operators inside each other the outermost counts on both sides. A view has the storage of what it looks
    at as its result, so that a chain through views stays one.
    """
    above = cast("list[int]", parent.tolist())
    made = [set(_storages(node.outputs)) for node in nodes]
    taken = [set(_storages(node.inputs)) for node in nodes]
    made_by: dict[int, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    for row in range(len(nodes)):
        outside = set(_upwards(row, above))
        for storage in sorted(taken[row]):
            maker = made_by.get(storage, -1)
            while maker >= 0 and above[maker] not in outside and storage in made[above[maker]]:
                maker = above[maker]
            if maker < 0 or maker in outside:
                continue
            outer = above[row]
            if outer >= 0 and storage in taken[outer] and outer not in _upwards(maker, above):
                continue  # the enclosing operator takes it already
            pairs[maker, row] = None
        for storage in made[row]:
            made_by[storage] = row
    return np.array([source for source, _ in pairs], np.int32), np.array(
        [target for _, target in pairs], np.int32
    )


def _upwards(row: int, above: list[int]) -> Iterator[int]:
    while row >= 0:
        yield row
        # Enclosing nodes began earlier; a damaged file must not lead in circles.
        row = above[row] if above[row] < row else -1


def _storages(values: object) -> Iterator[int]:
    """The storages of all tensors in a value: a tensor is (tensor, storage, offset, elements, size, device)."""
    if isinstance(values, dict):  # since schema 1.0.2 with shapes and types beside them
        yield from _storages(cast("dict[str, object]", values).get("values"))
    elif isinstance(values, list):
        listed = cast("list[object]", values)
        if (
            len(listed) == 6
            and isinstance(listed[5], str)
            and all(isinstance(one, int) for one in listed[:5])
        ):
            storage = listed[1]
            if isinstance(storage, int) and storage > 0:
                yield storage
        else:
            for one in listed:
                yield from _storages(one)
