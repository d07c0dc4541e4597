"""A graph of a trace, and the last step to it: remove waiting time, sort the tasks, fill the columns."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Codes, Flags, Ids, Indices, Times
from skyline.graph.dependency import Dependencies
from skyline.graph.graph import Graph, Structure
from skyline.graph.rules.attribution import attributed
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.marks import Marks
from skyline.graph.rules.pieces import Pieces, Role
from skyline.graph.rules.recorded_tasks import RecordedTasks
from skyline.graph.rules.synchronisation import SynchronisationWaits
from skyline.graph.rules.threads import HostThreads
from skyline.graph.task import KIND, WORK, TaskKind, Tasks, work_class
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSteps:
    """The steps of the trace in time order: durations, and the zero-length tasks that mark begin and end."""

    number: Ids
    measured_us: Times
    first: Ids
    last: Ids

    def __len__(self) -> int:
        return len(self.number)

    def simulated_us(self, starts_us: Times) -> Times:
        """The duration of each step, in µs, for given start times of the graph's tasks."""
        return starts_us[self.last] - starts_us[self.first]

    @property
    def inner(self) -> slice:
        """All steps except the first, which inherits earlier work, and the last, which ends with the recording."""
        return slice(1, -1) if len(self) > 2 else slice(-1, None)


@dataclass(frozen=True, slots=True, eq=False)
class KinetoGraph:
    """A graph of a trace, and how the two relate."""

    graph: Graph
    steps: MeasuredSteps
    constants: LaunchConstants
    event: Ids
    """For each task the trace row that gives it its name."""
    start_us: Times
    """Start of each task, in µs of the trace's clock and without waiting; a replay should reproduce it."""
    main: str
    """The lane of the script's own thread."""
    found: dict[str, int]
    """Number of applications of each rule, and of clipped or guessed items."""


def assembled(
    recorded: RecordedTasks,
    hosts: HostThreads,
    steps: MarkedSteps,
    bursts: Bursts,
    marks: Marks,
    gap_us: Times,
    own_us: Times,
    waiting: tuple[SynchronisationWaits, ...],
    begun: Indices,
    dependencies: Dependencies,
    constants: LaunchConstants,
    found: dict[str, int],
) -> KinetoGraph:
    """The graph. ``own_us`` is the time of each blocked call before its copy began; the rest of the call is waiting."""
    trace, pieces, work = recorded.trace, recorded.pieces, recorded.work
    start = recorded.start_us.copy()
    duration = recorded.end_us - recorded.start_us
    held = marks.copied.astype(np.int64) - 1
    # The piece before the point is the call itself, unless rounding left it no time before the copy.
    same = pieces.event[held] == pieces.event[marks.copied]
    duration[held[same]] = np.minimum(own_us[same], duration[held[same]])
    for waits in waiting:
        end = start[waits.piece] + duration[waits.piece]
        start[waits.piece] = np.clip(waits.until_us, start[waits.piece], end)
        duration[waits.piece] = end - start[waits.piece]
    late = np.concatenate([marks.waited, marks.copied, *(waits.piece for waits in waiting)])
    order = _order(pieces, start, late, begun)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    event = np.concatenate([pieces.event, work.event])
    placed = dependencies.between(place[dependencies.source], place[dependencies.target])
    # Dependencies that contradict the measured times are dropped: they would point back and form a cycle.
    forward = placed.source < placed.target
    known = attributed(recorded, hosts, steps, bursts)
    lane_names, lane = _lanes(trace, recorded, hosts)
    names, name = _names(trace, event, marks.names())
    graph = Graph(
        Structure(
            Tasks.columns(
                len(order),
                names,
                lane_names,
                name=name[order],
                lane=lane[order],
                kind=_kinds(recorded)[order],
                work=np.array([WORK[work_class(text)] for text in names], np.uint8)[name[order]],
                phase=known.phase[order],
                iteration=known.iteration[order],
                module=known.module[order],
                line=known.line[order],
                call_line=known.call_line[order],
                origin=event[order],
            ),
            placed if forward.all() else placed.taken(forward),
            known.modules,
            known.lines,
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
        event[order],
        start[order],
        lane_names[hosts.main],
        found | {"dependencies that the measured times contradict": int(np.count_nonzero(~forward))},
    )


def _order(pieces: Pieces, start: Times, late: Ids, begun: Indices) -> Indices:
    """Sort by start time; among simultaneous tasks, a wait comes after the tasks that it waits for.

    Every dependency then points forward, so no topological sort is needed.
    """
    count = len(pieces)
    rank = np.zeros(len(start))
    rank[count:] = 2.0  # the GPU's work after the calls
    rank[begun] = 1.0
    rank[late] = 3.0
    if count:
        # Of two simultaneous tasks on a thread, the one that follows must not come first.
        fresh = np.append(
            True, (pieces.thread[1:] != pieces.thread[:-1]) | (start[1:count] > start[: count - 1])
        )
        group = np.cumsum(fresh) * 10.0
        rank[:count] = np.maximum.accumulate(rank[:count] + group) - group
    return np.lexsort((np.arange(len(start)), rank, start))


def _kinds(recorded: RecordedTasks) -> Codes:
    trace, pieces, work = recorded.trace, recorded.pieces, recorded.work
    of_role = np.array([KIND[TaskKind.CPU]] * 2 + [KIND[TaskKind.LAUNCH], KIND[TaskKind.SYNC]], np.uint8)
    kind = of_role[pieces.role]
    loading: Flags = pieces.operator >= 0
    loading &= recorded.names.loader[np.maximum(pieces.operator, 0)] & (pieces.role == Role.OPERATOR)
    kind[loading] = KIND[TaskKind.DATA]
    copies = trace.category[work.event] == Category.COPY
    return np.concatenate(
        [kind, np.where(copies, KIND[TaskKind.COPY], KIND[TaskKind.KERNEL]).astype(np.uint8)]
    )


def _lanes(trace: ProfilerTrace, recorded: RecordedTasks, hosts: HostThreads) -> tuple[list[str], Ids]:
    """Names of all lanes and the lane of each task; threads come first, streams after them."""
    devices = len(np.unique(trace.device[recorded.work.event]))
    names = ["main" if row == hosts.main else f"thread {row}" for row in range(max(1, len(trace.threads)))]
    for row in np.unique(recorded.work.lane, return_index=True)[1].tolist():
        event = int(recorded.work.event[row])
        stream = f"stream {trace.stream[event]}"
        names.append(stream if devices < 2 else f"gpu {trace.device[event]} {stream}")
    first_stream = max(1, len(trace.threads))
    return names, np.concatenate([recorded.pieces.thread, first_stream + recorded.work.lane]).astype(np.int32)


def _names(trace: ProfilerTrace, event: Ids, points: dict[int, str]) -> tuple[list[str], Ids]:
    """The task names, without the other strings of the trace; ``points`` have their own names."""
    used, code = np.unique(trace.name[event], return_inverse=True)
    rows: list[int] = used.tolist()
    names = [trace.strings[row] for row in rows]
    name = code.astype(np.int32)
    table = {text: len(names) + place for place, text in enumerate(dict.fromkeys(points.values()))}
    for place, text in points.items():
        name[place] = table[text]
    return [*names, *table], name
