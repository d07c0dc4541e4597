"""Primitive: select the tasks that a change applies to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fnmatch import translate
from os.path import basename
from re import Pattern, compile
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, ON_GPU, PHASE, WORK, Task, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine, Phase

_Value = TypeVar("_Value")
_One = TypeVar("_One")


@dataclass(frozen=True, slots=True)
class Criteria:
    """Criteria for chosen tasks; a task must meet all given criteria.

    A tuple of values matches if any of its values does.

    - ``name``: part of the name (``"gemm"``), or a compiled regular expression.
    - ``lane``: the name of a lane; ``*`` matches any characters (``"stream *"``).
    - ``layer``: the name of a module, including its submodules (``"layer1"`` matches ``"layer1.0.conv2"``); ``*``
      matches any characters.
    - ``line``: ``"train.py:12"`` or a file and a line number, for the line that the work is attributed to;
      ``call_line`` is the executing line of the training loop.
    - ``iteration``: a number from ``Graph.iterations``.
    - ``on_gpu``: true for kernels and copies, false for all other tasks.
    - ``where``: a predicate, called last and only for tasks that meet all other criteria.
    """

    name: str | Pattern[str] | tuple[str, ...] | None = None
    kind: TaskKind | tuple[TaskKind, ...] | None = None
    work: WorkClass | tuple[WorkClass, ...] | None = None
    phase: Phase | tuple[Phase, ...] | None = None
    lane: str | tuple[str, ...] | None = None
    layer: str | tuple[str, ...] | None = None
    line: str | tuple[str, ...] | None = None
    call_line: str | tuple[str, ...] | None = None
    iteration: int | tuple[int, ...] | None = None
    on_gpu: bool | None = None
    where: Callable[[Task], bool] | None = None


def select(graph: Graph, criteria: Criteria | None = None, **given: Any) -> Indices:
    """The indices of the tasks that meet the criteria, in task order; all tasks without criteria.

    Pass the criteria as an object or as keywords: ``select(graph, kind=TaskKind.KERNEL, name="gemm")``. Names, lanes,
    layers and lines are compared once per distinct value.
    """
    asked = criteria if criteria is not None else Criteria(**given)
    tasks, structure = graph.tasks, graph.structure
    met = np.ones(len(graph), np.bool_)
    if asked.name is not None:
        met &= tasks.named(_name_test(asked.name))
    if asked.lane is not None:
        met &= _of_table(tasks.lanes, _lane_test(_several(asked.lane)))[tasks.lane]
    if asked.kind is not None:
        met &= _coded(tasks.kind, KIND, _several(asked.kind))
    if asked.work is not None:
        met &= _coded(tasks.work, WORK, _several(asked.work))
    if asked.phase is not None:
        met &= _coded(tasks.phase, PHASE, _several(asked.phase))
    if asked.layer is not None:
        met &= _indexed(tasks.module, structure.modules, _layer_test(_several(asked.layer)))
    if asked.line is not None:
        met &= _indexed(tasks.line, structure.lines, _line_test(_several(asked.line)))
    if asked.call_line is not None:
        met &= _indexed(tasks.call_line, structure.lines, _line_test(_several(asked.call_line)))
    if asked.iteration is not None:
        met &= np.isin(tasks.iteration, _several(asked.iteration))
    if asked.on_gpu is not None:
        met &= ON_GPU[tasks.kind] == asked.on_gpu
    found = np.flatnonzero(met)
    if asked.where is None or not len(found):
        return found
    return found[_of_table(tasks.taken(found), asked.where)]


def _several(values: _One | tuple[_One, ...]) -> tuple[_One, ...]:
    if isinstance(values, (tuple, list, set, frozenset)):
        return tuple(values)  # type: ignore[reportUnknownArgumentType]
    return (values,)


def _of_table(table: Collection[_Value], wanted: Callable[[_Value], bool]) -> Flags:
    return np.fromiter(map(wanted, table), np.bool_, len(table))


def _indexed(
    column: npt.NDArray[np.int32], table: Sequence[_Value], wanted: Callable[[_Value], bool]
) -> Flags:
    """Apply the result for the table entry that the column refers to; -1 refers to none."""
    return np.append(_of_table(table, wanted), False)[np.where(column < len(table), column, -1)]


def _coded(column: npt.NDArray[np.uint8], codes: Any, wanted: tuple[Any, ...]) -> Flags:
    holds = np.zeros(len(codes), np.bool_)
    holds[[codes[value] for value in wanted]] = True
    return holds[column]


def _name_test(wanted: str | Pattern[str] | tuple[str, ...]) -> Callable[[str], bool]:
    if isinstance(wanted, Pattern):
        return lambda name: wanted.search(name) is not None
    parts = _several(wanted)
    return lambda name: any(part in name for part in parts)


def _lane_test(wanted: tuple[str, ...]) -> Callable[[str], bool]:
    patterns = [compile(translate(one)) for one in wanted]
    return lambda lane: any(pattern.match(lane) for pattern in patterns)


def _layer_test(wanted: tuple[str, ...]) -> Callable[[str], bool]:
    patterns = [compile(translate(one)) for one in wanted]
    below = tuple(f"{one}{mark}" for one in wanted for mark in "./")
    return lambda layer: layer.startswith(below) or any(pattern.match(layer) for pattern in patterns)


def _line_test(wanted: tuple[str, ...]) -> Callable[[CodeLine], bool]:
    places = [one.rpartition(":") for one in wanted]
    return lambda line: any(
        str(line.line) == number and file in (line.file, basename(line.file)) for file, _, number in places
    )
