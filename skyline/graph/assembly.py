"""The last step from a trace to a graph: waiting taken off, everything in one order, columns filled."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Codes, Flags, Ids, Indices, Times
from skyline.graph.dependency import Dependencies
from skyline.graph.graph import Graph
from skyline.graph.kineto_graph import KinetoGraph, MeasuredSteps
from skyline.graph.rules.constants import Constants
from skyline.graph.rules.draft import Draft
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.layers import forward_rows, layers_of
from skyline.graph.rules.lines import lines_of
from skyline.graph.rules.marks import Marks
from skyline.graph.rules.phases import iterations_of, phases_of
from skyline.graph.rules.pieces import Pieces, Role
from skyline.graph.rules.synchronisation import Waiting
from skyline.graph.rules.threads import HostThreads
from skyline.graph.structure import Structure
from skyline.graph.task import TaskKind, work_class
from skyline.graph.tasks import KIND, PHASE, WORK, Tasks
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace, Steps
from skyline.trace.phase import Phase


def assembled(
    draft: Draft,
    hosts: HostThreads,
    steps: Steps,
    bursts: Bursts,
    marks: Marks,
    gap_us: Times,
    own_us: Times,
    waiting: tuple[Waiting, ...],
    begun: Indices,
    dependencies: Dependencies,
    constants: Constants,
    found: dict[str, int],
) -> KinetoGraph:
    """The graph. ``own_us`` is what calls that a copy held did before it; their other time is waiting."""
    trace, pieces, work = draft.trace, draft.pieces, draft.work
    start = draft.start_us.copy()
    duration = draft.end_us - draft.start_us
    held = marks.copied.astype(np.int64) - 1
    duration[held] = np.minimum(own_us, duration[held])
    for waits in waiting:
        end = start[waits.piece] + duration[waits.piece]
        start[waits.piece] = np.clip(waits.until_us, start[waits.piece], end)
        duration[waits.piece] = end - start[waits.piece]
    late = np.concatenate([marks.waited, marks.copied, *(waits.piece for waits in waiting)])
    order = _order(pieces, start, late, begun)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    event = np.concatenate([pieces.event, work.event])[order]
    iteration = iterations_of(pieces, steps)
    phase = phases_of(trace, draft.names, hosts, pieces, iteration, bursts)
    forward = forward_rows(trace, pieces, phase == PHASE[Phase.BACKWARD])
    layers, lines = layers_of(trace, draft.names, pieces, forward), lines_of(trace, forward)
    collective = np.append(draft.names.collective[work.event], False)[: len(work)]
    gpu_phase = np.where(collective, PHASE[Phase.COMMUNICATION], _inherited(draft, phase, PHASE[Phase.OTHER]))
    lane_names, lane = _lanes(trace, draft, hosts)
    names, name = _names(trace, event)
    graph = Graph(
        Structure(
            Tasks.columns(
                len(order),
                names,
                lane_names,
                name=name,
                lane=lane[order],
                kind=_kinds(draft)[order],
                work=np.array([WORK[work_class(text)] for text in names], np.uint8)[name],
                phase=np.concatenate([phase, gpu_phase])[order],
                iteration=np.concatenate([iteration, _inherited(draft, iteration, 0)])[order],
                module=np.concatenate([layers.module, _inherited(draft, layers.module, -1)])[order],
                line=np.concatenate([lines.line, _inherited(draft, lines.line, -1)])[order],
                call_line=np.concatenate([lines.call_line, _inherited(draft, lines.call_line, -1)])[order],
            ),
            dependencies.between(place[dependencies.source], place[dependencies.target]),
            layers.names,
            lines.lines,
        ),
        duration[order],
        np.concatenate([gap_us, np.full(len(work), constants.turnaround_us)])[order],
    )
    measured = steps.end_us - steps.start_us
    return KinetoGraph(
        graph,
        MeasuredSteps(
            steps.number.astype(np.int32), measured, place[marks.step_start], place[marks.step_end]
        ),
        constants,
        event,
        start[order],
        lane_names[hosts.main],
        found,
    )


def _order(pieces: Pieces, start: Times, late: Ids, begun: Indices) -> Indices:
    """By start; of what starts together the waiting comes after what it waits for.

    Then every dependency points forward, and no order has to be searched for.
    """
    count = len(pieces)
    rank = np.zeros(len(start))
    rank[count:] = 2.0  # the GPU's work after the calls
    rank[begun] = 1.0
    rank[late] = 3.0
    if count:
        # What follows on the same thread at the same moment must not come before.
        fresh = np.append(
            True, (pieces.thread[1:] != pieces.thread[:-1]) | (start[1:count] > start[: count - 1])
        )
        group = np.cumsum(fresh) * 10.0
        rank[:count] = np.maximum.accumulate(rank[:count] + group) - group
    return np.lexsort((np.arange(len(start)), rank, start))


def _inherited(draft: Draft, column: Ids | Codes, missing: int) -> Ids | Codes:
    """For each piece of GPU work what its launch has."""
    if not len(column):
        return np.full(len(draft.work), missing, column.dtype)
    taken = column[np.maximum(draft.launch, 0)]
    return np.where(draft.launch >= 0, taken, np.array(missing).astype(column.dtype))


def _kinds(draft: Draft) -> Codes:
    trace, pieces, work = draft.trace, draft.pieces, draft.work
    of_role = np.array([KIND[TaskKind.CPU]] * 2 + [KIND[TaskKind.LAUNCH], KIND[TaskKind.SYNC]], np.uint8)
    kind = of_role[pieces.role]
    loading: Flags = pieces.operator >= 0
    loading &= draft.names.loader[np.maximum(pieces.operator, 0)] & (pieces.role == Role.OPERATOR)
    kind[loading] = KIND[TaskKind.DATA]
    copies = trace.category[work.event] == Category.COPY
    return np.concatenate(
        [kind, np.where(copies, KIND[TaskKind.COPY], KIND[TaskKind.KERNEL]).astype(np.uint8)]
    )


def _lanes(trace: ProfilerTrace, draft: Draft, hosts: HostThreads) -> tuple[list[str], Ids]:
    """Names of all lanes and the lane of each task; threads come first, streams after them."""
    devices = len(np.unique(trace.device[draft.work.event]))
    names = ["main" if row == hosts.main else f"thread {row}" for row in range(max(1, len(trace.threads)))]
    for row in np.unique(draft.work.lane, return_index=True)[1].tolist():
        event = int(draft.work.event[row])
        stream = f"stream {trace.stream[event]}"
        names.append(stream if devices < 2 else f"gpu {trace.device[event]} {stream}")
    first_stream = max(1, len(trace.threads))
    return names, np.concatenate([draft.pieces.thread, first_stream + draft.work.lane]).astype(np.int32)


def _names(trace: ProfilerTrace, event: Ids) -> tuple[list[str], Ids]:
    """The names that tasks have, without the trace's other strings."""
    used, name = np.unique(trace.name[event], return_inverse=True)
    return [trace.strings[row] for row in used.tolist()], name.astype(np.int32)
