"""What an iteration waits for: the chain of work that bounds it, by cause."""

from __future__ import annotations

from dataclasses import dataclass, fields

from skyline.graph.graph import Cause
from skyline.graph.task import Task, TaskKind
from skyline.simulate.timeline import Timeline
from skyline.trace.phase import Phase

_TOLERANCE_US = 1e-6


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the iteration waits for, as shares that sum to 1."""

    cpu: float
    gpu_compute: float
    gpu_communication: float
    launch: float
    data: float
    idle: float


def critical_tasks(timeline: Timeline) -> tuple[int, ...]:
    """The longest chain of work, first task first. Ties go to the task on the same lane, then to the earliest."""
    if not timeline.starts:
        return ()
    graph = timeline.graph
    structure = graph.structure
    finish = [end + gap for end, gap in zip(timeline.ends, graph.gaps, strict=True)]
    index = max(range(len(finish)), key=lambda i: (finish[i], -i))
    chain: list[int] = []
    while index >= 0:
        chain.append(index)
        start = timeline.starts[index]
        before = structure.before[index]
        if before >= 0 and finish[before] >= start - _TOLERANCE_US:
            index = before
            continue
        index = -1
        for dependency in structure.incoming[chain[-1]]:
            since = timeline.starts if dependency.from_start else timeline.ends
            if since[dependency.source] + dependency.lag_us >= start - _TOLERANCE_US:
                index = dependency.source
                break
    return tuple(reversed(chain))


def critical_path(timeline: Timeline) -> CriticalPath:
    """Each moment of the makespan billed to the task of the critical chain that runs then.

    Time between two tasks of the chain is launch latency where a launch links them, idle otherwise. The time
    of a task that was launched before its launching call returned counts from where the next task starts.
    """
    graph = timeline.graph
    span = timeline.makespan_us
    chain = critical_tasks(timeline)
    if not chain or span <= 0:
        return CriticalPath(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    spent = {field.name: 0.0 for field in fields(CriticalPath)}
    spent["idle"] += timeline.starts[chain[0]]
    for position, index in enumerate(chain):
        start = timeline.starts[index]
        last = position + 1 == len(chain)
        until = span if last else timeline.starts[chain[position + 1]]
        own_end = min(timeline.ends[index] + graph.gaps[index], until)
        spent[_cause(graph.tasks[index])] += max(0.0, own_end - start)
        if not last:
            between = max(0.0, until - max(own_end, start))
            spent["launch" if _linked_by_launch(timeline, chain[position + 1]) else "idle"] += between
    total = sum(spent.values())
    return CriticalPath(**{name: time / total for name, time in spent.items()})


def _cause(task: Task) -> str:
    if task.kind in (TaskKind.KERNEL, TaskKind.COPY):
        return "gpu_communication" if task.phase is Phase.COMMUNICATION else "gpu_compute"
    if task.kind is TaskKind.DATA or task.phase is Phase.DATA:
        return "data"
    return "launch" if task.kind is TaskKind.LAUNCH else "cpu"


def _linked_by_launch(timeline: Timeline, index: int) -> bool:
    return any(dependency.cause is Cause.LAUNCH for dependency in timeline.graph.structure.incoming[index])
