"""Which task each moment of the iteration belongs to, where the host and a GPU work side by side."""

from __future__ import annotations

from skyline.graph.task import TaskKind
from skyline.simulate.timeline import Timeline
from skyline.trace.phase import Phase, PhaseTimes

_ON_GPU = frozenset({TaskKind.KERNEL, TaskKind.COPY})


def billed_us(timeline: Timeline, lane: str) -> tuple[float, ...]:
    """µs of the timeline per task: while the GPU works a moment is that of its kernel, else that of the host's task.

    ``lane`` is the script's own thread. Of kernels that run at once the one that started first is billed. Where
    neither works nobody is billed. Without a GPU this is the time of each task of the lane and the gap after it.
    """
    graph = timeline.graph
    billed = [0.0] * len(graph.tasks)
    busy: list[tuple[float, float]] = []
    on_gpu = sorted(
        (timeline.starts[index], index) for index, task in enumerate(graph.tasks) if task.kind in _ON_GPU
    )
    until = 0.0
    for start, index in on_gpu:
        begin, end = max(start, until), timeline.ends[index]
        if end <= begin:
            continue
        billed[index] = end - begin
        if busy and begin <= busy[-1][1]:
            busy[-1] = (busy[-1][0], end)
        else:
            busy.append((begin, end))
        until = end
    position = 0
    for index, task in enumerate(graph.tasks):
        if task.lane != lane:
            continue
        start = timeline.starts[index]
        end = timeline.ends[index] + graph.gaps[index]
        while position < len(busy) and busy[position][1] <= start:
            position += 1
        free = end - start
        further = position
        while further < len(busy) and busy[further][0] < end:
            free -= min(end, busy[further][1]) - max(start, busy[further][0])
            further += 1
        billed[index] = max(0.0, free)
    return tuple(billed)


def billed_phases(timeline: Timeline, billed: tuple[float, ...]) -> PhaseTimes:
    """Milliseconds per iteration and phase, as billed."""
    spent: dict[Phase, float] = {}
    for task, time_us in zip(timeline.graph.tasks, billed, strict=True):
        spent[task.phase] = spent.get(task.phase, 0.0) + time_us
    count = max(1, len(timeline.graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in spent.items()})
