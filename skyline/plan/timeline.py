"""The timeline of a strategy's ranks as a graph: the stages of a pipeline, or the streams of one rank."""

from __future__ import annotations

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.step import StreamTimes, pipeline_timeline, stream_times
from skyline.plan.strategy import Strategy
from skyline.plan.work import Work
from skyline.trace.record import Phase

_COMPUTE, _COMMUNICATE = "compute", "communication"
_SHOWN = 4
"""Number of equal micro-batches that a timeline of one stage shows."""


def strategy_graph(work: Work, strategy: Strategy, cluster: ClusterSpec) -> Graph:
    """The graph of one step. One rank represents the equal ranks of its stage."""
    if strategy.pipeline > 1:
        return pipeline_timeline(work, strategy, cluster)
    return stream_graph(stream_times(work, strategy, cluster), min(strategy.accumulation, _SHOWN))


def stream_graph(times: StreamTimes, micro_batches: int) -> Graph:
    """Two streams: the parameters of a block are gathered while the previous block computes."""
    made = _Streams()
    for micro_batch in range(micro_batches):
        for block in range(times.blocks):
            gathered = made.communicate(
                f"gather {block}", times.gather_us, Phase.FORWARD, made.one_before_last
            )
            made.compute(f"forward {block}", times.forward_us, Phase.FORWARD, gathered)
        made.compute("loss", times.ends_us, Phase.FORWARD, None)
        last = micro_batch == micro_batches - 1
        gathered = _gather(made, times, times.blocks - 1)
        for block in reversed(range(times.blocks)):
            # The next block's gather precedes this block's reduction, which waits for the computation.
            ahead = _gather(made, times, block - 1) if block else None
            done = made.compute(f"backward {block}", times.backward_us, Phase.BACKWARD, gathered)
            gathered = ahead
            if times.scatter_us and (times.sharded or last):
                made.communicate(f"reduce {block}", times.scatter_us, Phase.BACKWARD, done)
    made.compute("optimizer", times.optimizer_us, Phase.OPTIMIZER, made.last_communication)
    return Graph(Structure(made.tasks, made.waits), made.durations)


def _gather(made: _Streams, times: StreamTimes, block: int) -> int | None:
    return made.communicate(f"gather {block}", times.gather_us, Phase.BACKWARD, made.one_before_last)


class _Streams:
    """Tasks on two lanes, as they are added."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.durations: list[float] = []
        self.waits: list[Dependency] = []
        self.computed: list[int] = []
        self.last_communication: int | None = None

    @property
    def one_before_last(self) -> int | None:
        """The computation that frees the buffer for the next gather: at most one block is gathered ahead."""
        return self.computed[-2] if len(self.computed) > 1 else None

    def compute(self, name: str, time_us: float, phase: Phase, after: int | None) -> int:
        task = self._add(name, time_us, phase, _COMPUTE, after)
        self.computed.append(task)
        return task

    def communicate(self, name: str, time_us: float, phase: Phase, after: int | None) -> int | None:
        if time_us <= 0:
            return None
        self.last_communication = self._add(name, time_us, phase, _COMMUNICATE, after)
        return self.last_communication

    def _add(self, name: str, time_us: float, phase: Phase, lane: str, after: int | None) -> int:
        number = len(self.tasks)
        self.tasks.append(Task(name, TaskKind.KERNEL, WorkClass.OTHER, lane, phase, 0))
        self.durations.append(time_us)
        if after is not None:
            self.waits.append(Dependency(after, number, Cause.EVENT))
        return number
