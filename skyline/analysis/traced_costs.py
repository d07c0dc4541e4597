"""What the operators, layers and lines of a recording cost, and what the step would take if one were free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skyline.analysis.traced_functions import functions
from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.launching import launches
from skyline.graph.scaling import scale
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU, PHASES
from skyline.simulate.groups import groups_by
from skyline.simulate.moments import moments_us
from skyline.trace.kineto.category import Category
from skyline.trace.phase import PhaseTimes
from skyline.whatif.recording import Recording

_COARSE = 0.5
"""A layer with more than this share of all layers says nothing that the parts of it do not say better."""
_STARTED = ("autograd::engine::evaluate_function: ", "torch::autograd::")
_WORTH_SHOWING = 1e-4


@dataclass(frozen=True, slots=True)
class TracedCost:
    """What an operator, layer or line takes of a step, in ms; all of one kind sum to the step but for the rest.

    ``own_ms`` counts each moment once: that of a GPU's work while it runs, else of the host's. ``gpu_ms`` is how
    long its work occupies streams, ``kernels`` how many pieces that is, copies included. ``saved_ms`` is by how
    much a step would be shorter if its work, and the host's time until the next, took none; None where that was
    not simulated.
    """

    name: str
    own_ms: float
    share: float
    gpu_ms: float
    kernels: float
    saved_ms: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Billing:
    """What each task has of a step, in ms: its own moments, and its time on a stream.

    The counted steps have the mean length; all is scaled to the step that numbers are about, so that it adds up.
    """

    owned_ms: Times
    busy_ms: Times
    inside: Flags
    gpu_share: float
    """Of the counted steps, how much of the time any stream was busy."""
    idle_ms: float
    """Per step, when neither the host nor the GPU did anything that was recorded."""
    phases: PhaseTimes


def billing(recording: Recording) -> Billing:
    """Bill each moment of the counted steps to the GPU's work, else the script's thread's, else another thread's."""
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
    """By the outermost operator around the work."""
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
    """By the function of the person's code that called, where Python functions were recorded."""
    names, of_task = functions(recording, operator_rows(recording))
    return _dearest(recording, bill, _members(names, of_task), shown)


def line_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """By the line of the person's code, where call stacks were recorded."""
    return _dearest(recording, bill, groups_by(recording.graph, "line"), shown)


def layer_costs(recording: Recording, bill: Billing, shown: int) -> tuple[TracedCost, ...]:
    """By layers that do not contain one another, the dearest first; those that hold nearly everything are opened."""
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
    """For each task the event of the outermost operator that brought it about; -1 where none was recorded."""
    trace, graph, event = recording.trace, recording.graph, recording.kineto.event
    tasks = graph.tasks
    row = np.full(len(graph), -1, np.int64)
    hosted = ~ON_GPU[tasks.kind]
    # Loaders are annotations: a batch is as good as an operator.
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
    """For each call the operator that it lies in; these operators do not overlap on a thread."""
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
                _saved_ms(recording, members),
            )
        )
    return tuple(found)


def _saved_ms(recording: Recording, members: Ids | Indices) -> float:
    """The simulated share of a step that goes with the group, on the step as it runs."""
    graph, steps = recording.graph, recording.kineto.steps
    # The points at which steps begin and end stay where they are: what follows them is not the group's.
    free = np.setdiff1d(members, np.concatenate([steps.first, steps.last]))
    without = recording.step_ms(scale(graph, free, 0.0, gaps=True))
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
