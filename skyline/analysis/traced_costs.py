"""Costs of the operators, layers and lines of a recording, and the step time without one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.graph import scale
from skyline.graph.launching import launches
from skyline.graph.python_frames import frames, in_library, innermost
from skyline.graph.rules.attribution import forward_operators
from skyline.graph.selection import select
from skyline.graph.task import KIND, ON_GPU, PHASE, PHASES, TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.simulate.groups import groups_by
from skyline.simulate.moments import moments_us
from skyline.trace.kineto.category import Category
from skyline.trace.record import Phase, PhaseTimes
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject

_COARSE = 0.5
"""A layer above this share of all layers is replaced by its parts, which are more informative."""
_STARTED = ("autograd::engine::evaluate_function: ", "torch::autograd::")
_WORTH_SHOWING = 1e-4


@dataclass(frozen=True, slots=True)
class TracedCost:
    """The cost of an operator, layer or line per step, in ms; all of one kind and the remainder sum to the step.

    ``own_ms`` counts each moment once: for the GPU's work while it runs, else for the host's. ``gpu_ms`` is the time
    of its work on streams, ``kernels`` the number of kernels and copies. ``saved_ms`` is the reduction of the step if
    its work, and the host's time until the next work, took no time; None if not simulated.
    """

    name: str
    own_ms: float
    share: float
    gpu_ms: float
    kernels: float
    saved_ms: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Billing:
    """The share of each task in a step, in ms: its own moments, and its time on a stream.

    All is scaled from the mean of the counted steps to the step time of the report, so that the rows sum to it.
    """

    owned_ms: Times
    busy_ms: Times
    inside: Flags
    gpu_share: float
    """Share of the time in the counted steps in which any stream was busy."""
    idle_ms: float
    """Time per step without any recorded work on host or GPU."""
    phases: PhaseTimes


def billing(recording: Recording) -> Billing:
    """Attribute each moment of the counted steps to GPU work, else the script's thread, else another thread."""
    timeline, tasks = recording.timeline, recording.graph.tasks
    begin, end = recording.window_us
    on_gpu: Flags = ON_GPU[tasks.kind]
    own: Flags = tasks.lane == tasks.lane_code(recording.kineto.main)
    groups = [np.flatnonzero(one) for one in (on_gpu, own, ~on_gpu & ~own)]
    owned = moments_us(timeline, groups, begin, end)
    clipped = np.clip(timeline.ends, begin, end) - np.clip(timeline.starts, begin, end)
    span_us, step_ms = max(end - begin, 1e-9), recording.running_ms.value
    scaled = step_ms / span_us
    per_phase = np.bincount(tasks.phase, owned, len(PHASES)) * scaled
    return Billing(
        owned * scaled,
        np.where(on_gpu, clipped, 0.0) * scaled,
        (timeline.starts < end) & (timeline.ends >= begin),
        float(owned[on_gpu].sum()) / span_us,
        max(0.0, span_us - float(owned.sum())) * scaled,
        PhaseTimes.of(dict(zip(PHASES, per_phase.tolist(), strict=True))),
    )


def operator_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """Costs by the outermost operator around the work."""
    trace = recording.trace
    row = operator_rows(recording)
    used, place = np.unique(trace.name[row[row >= 0]], return_inverse=True)
    codes: list[int] = used.tolist()
    named = [_plain(trace.strings[code]) for code in codes]
    table = tuple(dict.fromkeys(named))
    of_task = np.full(len(row), -1, np.int32)
    of_task[row >= 0] = np.array([table.index(name) for name in named], np.int32)[place]
    return _dearest(recording, bill, _members(table, of_task), shown)


def function_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """Costs by the calling function of the user's code, if Python functions were recorded."""
    names, of_task = functions(recording, operator_rows(recording))
    return _dearest(recording, bill, _members(names, of_task), shown)


def line_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """Costs by the line of the user's code, if call stacks were recorded."""
    return _dearest(recording, bill, groups_by(recording.graph, "line"), shown)


def layer_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """Costs by disjoint layers, highest first; a layer with nearly all of the cost is split."""
    groups = groups_by(recording.graph, "layer")
    cost = {name: float(bill.owned_ms[members].sum()) for name, members in groups.items()}
    whole = max(cost.values(), default=0.0)
    inner = {name.rpartition(".")[0] for name in groups}
    chosen: dict[str, Ids] = {}
    for name in sorted(groups, key=lambda name: (-cost[name], name.count("."), name)):
        opened = name in inner and cost[name] > _COARSE * whole
        if not opened and not any(_holds(other, name) for other in chosen):
            chosen[name] = groups[name]
    return _dearest(recording, bill, chosen, shown)


def operator_rows(recording: Recording) -> Indices:
    """For each task the event of the outermost operator that caused it; -1 if none was recorded."""
    trace, graph, event = recording.trace, recording.graph, recording.kineto.event
    tasks = graph.tasks
    row = np.full(len(graph), -1, np.int64)
    hosted = ~ON_GPU[tasks.kind]
    # Loader annotations count as operators.
    is_operator = hosted & ((trace.category[event] == Category.CPU_OP) | (tasks.kind == KIND[TaskKind.DATA]))
    row[is_operator] = event[is_operator]
    calls = np.flatnonzero(hosted & np.isin(trace.category[event], (Category.RUNTIME, Category.DRIVER)))
    row[calls] = _around(recording, np.unique(event[is_operator]).astype(np.int64), calls)
    found = launches(graph)
    found = found.taken(tasks.kind[found.source] != KIND[TaskKind.CPU])
    row[found.target] = row[found.source]
    return row


def _members(names: Sequence[str], of_task: Ids) -> dict[str, Indices]:
    """The tasks of each entry of a table."""
    order = np.argsort(of_task, kind="stable")
    bounds = np.searchsorted(of_task[order], np.arange(len(names) + 1))
    return {name: np.sort(order[bounds[row] : bounds[row + 1]]) for row, name in enumerate(names)}


def _around(recording: Recording, operators: Indices, calls: Indices) -> Indices:
    """For each call the operator that contains it; these operators do not overlap on a thread."""
    trace = recording.trace
    rows = recording.kineto.event[calls].astype(np.int64)
    found = np.full(len(calls), -1, np.int64)
    for thread in np.unique(trace.thread[rows]).tolist():
        here = operators[trace.thread[operators] == thread]
        mine = np.flatnonzero(trace.thread[rows] == thread)
        if not len(here):
            continue
        here = here[np.argsort(trace.start_us[here], kind="stable")]
        start = trace.start_us[rows[mine]]
        place = np.searchsorted(trace.start_us[here], start, side="right") - 1
        last = here[np.maximum(place, 0)]
        inside = (place >= 0) & (start < trace.start_us[last] + trace.duration_us[last])
        found[mine[inside]] = last[inside]
    return found


def _dearest(
    recording: Recording, bill: Billing, groups: Mapping[str, Ids | Indices], shown: int
) -> tuple[TracedCost, ...]:
    count, tasks = max(1, recording.count), recording.graph.tasks
    step = recording.running_ms.value
    # The points at which steps begin and end stay: work after them does not belong to a group.
    stays = np.zeros(len(tasks), np.bool_)
    stays[recording.kineto.steps.first] = True
    stays[recording.kineto.steps.last] = True
    cost = {name: float(bill.owned_ms[members].sum()) for name, members in groups.items()}
    ranked = sorted((name for name in groups if cost[name] > 0), key=lambda name: (-cost[name], name))
    found: list[TracedCost] = []
    for name in ranked[:shown]:
        members = groups[name]
        share = cost[name] / step if step > 0 else 0.0
        if share < _WORTH_SHOWING:
            break
        launched = bill.inside[members] & ON_GPU[tasks.kind[members]]
        found.append(
            TracedCost(
                name,
                cost[name],
                share,
                float(bill.busy_ms[members].sum()),
                float(np.count_nonzero(launched)) / count,
                _saved_ms(recording, members[~stays[members]]),
            )
        )
    return tuple(found)


def _saved_ms(recording: Recording, free: Ids | Indices) -> float:
    """The simulated saving without some tasks, scaled to the actual step."""
    without = recording.step_ms(scale(recording.graph, free, 0.0, gaps=True))
    whole = recording.settled_ms
    return recording.running_ms.value * (1 - without / whole) if whole > 0 else 0.0


def _holds(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.") or outer.startswith(f"{inner}.")


def _plain(name: str) -> str:
    if name.startswith("enumerate(DataLoader)"):
        return "DataLoader.__next__"
    for start in _STARTED:
        name = name.removeprefix(start)
    return name


def functions(recording: Recording, row_of_task: Indices) -> tuple[tuple[str, ...], Ids]:
    """A table of functions, and for each task its row in the table; -1 if unknown.

    ``row_of_task`` is the event of each task's operator, or -1. The function is the innermost one around the operator
    that belongs neither to Python nor to PyTorch. For backward work, the forward operator with the same sequence
    number counts. The profiler names functions by the line of their definition.
    """
    trace = recording.trace
    rows = frames(trace, lambda file: not in_library(file))
    forward = row_of_task.copy()
    behind = np.flatnonzero((recording.graph.tasks.phase == PHASE[Phase.BACKWARD]) & (row_of_task >= 0))
    forward[behind] = forward_operators(trace, row_of_task[behind])
    asked = np.unique(forward[forward >= 0])
    frame = innermost(trace, rows, asked)
    used, place = np.unique(trace.name[frame[frame >= 0]], return_inverse=True)
    names: list[int] = used.tolist()
    table = np.full(len(asked), -1, np.int32)
    table[frame >= 0] = place
    of_task = np.full(len(row_of_task), -1, np.int32)
    known = forward >= 0
    of_task[known] = table[np.searchsorted(asked, forward[known])]
    return tuple(trace.strings[name] for name in names), of_task


_HOST = (TaskKind.CPU, TaskKind.LAUNCH, TaskKind.SYNC)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The step time, in ms, with all work of one kind halved; None without such work."""

    gpu_ms: float | None
    """The GPU's own work, without collectives."""
    communication_ms: float | None
    """Collectives, including the time in which they wait for other ranks."""
    host_ms: float | None
    """Operators, calls and the Python between them."""
    data_ms: float | None
    """Loading batches on the script's thread, or waiting for them."""


def sensitivity(subject: Subject) -> Sensitivity:
    """One simulation for each kind of work."""
    graph = subject.graph
    gpu = select(graph, on_gpu=True)
    exchanging = graph.tasks.phase[gpu] == PHASE[Phase.COMMUNICATION]
    return Sensitivity(
        _halved(subject, gpu[~exchanging]),
        _halved(subject, gpu[exchanging]),
        _halved(subject, select(graph, kind=_HOST)),
        _halved(subject, select(graph, kind=TaskKind.DATA)),
    )


def _halved(subject: Subject, chosen: Indices) -> float | None:
    if not len(chosen) or subject.step_ms(subject.graph) <= 0:
        return None
    faster = subject.step_ms(scale(subject.graph, chosen, 0.5, gaps=True))
    return subject.running_ms.value * faster / subject.step_ms(subject.graph)
