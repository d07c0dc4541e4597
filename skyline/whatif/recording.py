"""A recording as it stands: what every question about it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Ids, Indices, Times
from skyline.graph.from_kineto import built
from skyline.graph.graph import Graph
from skyline.graph.kineto_graph import KinetoGraph
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU
from skyline.interval import Interval
from skyline.simulate.engine import simulate
from skyline.simulate.timeline import Timeline
from skyline.spread import interval_of, median
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.whatif.subject import Grain

_RUNS_AHEAD = 0.02
"""By how much more a stream must be busy than the script's thread before that is said."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A trace, its graph and the simulation of that, unchanged.

    A recording without steps is one step as a whole. Of several the first inherits work from before the recording
    and the last ends with it: ``counted`` are those that numbers are of.
    """

    trace: ProfilerTrace
    kineto: KinetoGraph
    timeline: Timeline
    steps_ms: tuple[float, ...]
    """All steps as measured."""
    simulated_steps_ms: tuple[float, ...]
    counted: slice
    iteration_ms: Interval

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self.kineto.graph

    @property
    def profile(self) -> None:
        """A trace is none: it tells nothing of the sources, and little of loaders and optimizers."""
        return None

    @property
    def lane(self) -> str:
        """The lane of the script's own thread."""
        return self.kineto.main

    @property
    def steps(self) -> int:
        """How many steps the graph holds."""
        return len(self.steps_ms)

    @property
    def memory(self) -> None:
        """Who owned what at the peak is not known from a trace."""
        return None

    @property
    def samples(self) -> None:
        """How many samples a step takes is not known from a trace."""
        return None

    def graph_of(self, grain: Grain) -> Graph:
        """The recorded graph, which holds every operator, whatever is asked for."""
        return self.kineto.graph

    def step_ms(self, graph: Graph) -> float:
        """What a step of a changed graph takes in a run that goes on, in ms: see ``settled_ms``."""
        return settled_ms(self, graph, simulate(graph))

    @property
    def has_steps(self) -> bool:
        """Whether the script marked steps, or they could be told by their batches or updates."""
        return len(self.kineto.steps) > 0

    @cached_property
    def window_us(self) -> tuple[float, float]:
        """Begin and end of the counted steps in the simulation; of what they launched where the GPU lags behind."""
        if not self.has_steps:
            return 0.0, self.timeline.makespan_us
        starts, steps = self.timeline.starts, self.kineto.steps
        begin = float(starts[steps.first[self.counted][0]])
        end = float(starts[steps.last[self.counted][-1]])
        if not self.runs_ahead:
            return begin, end
        work = _launched(self.timeline, np.array([begin]), np.array([end]))[0]
        return float(starts[work].min()), float(self.timeline.ends[work].max())

    @property
    def count(self) -> int:
        """How many steps are counted."""
        return len(self.steps_ms[self.counted])

    @cached_property
    def replay_error(self) -> float:
        """The mean over the counted steps of |simulated - measured| / measured."""
        pairs = zip(self.simulated_steps_ms[self.counted], self.steps_ms[self.counted], strict=True)
        errors = [abs(simulated - measured) / measured for simulated, measured in pairs if measured > 0]
        return sum(errors) / len(errors) if errors else 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether work ran on streams."""
        return bool(ON_GPU[self.graph.tasks.kind].any())

    @property
    def gpu_recorded(self) -> bool:
        """A trace without work on streams is one of a CPU."""
        return self.on_gpu

    @cached_property
    def settled_ms(self) -> float:
        """What a step takes in the unchanged simulation, as ``settled_ms`` has it of changed ones."""
        return settled_ms(self, self.graph, self.timeline)

    @property
    def running_ms(self) -> Interval:
        """What a step takes in a run that goes on: as measured, or longer where the recorded script ran ahead."""
        simulated = median(self.simulated_steps_ms[self.counted])
        longer = self.settled_ms / simulated if simulated > 0 else 1.0
        return self.iteration_ms.scaled(longer) if longer > 1 + _RUNS_AHEAD else self.iteration_ms

    @property
    def runs_ahead(self) -> bool:
        """Whether the script launched more work in its steps than the GPU did meanwhile."""
        return self.running_ms is not self.iteration_ms


def recording(trace: ProfilerTrace) -> Recording:
    """Build the graph of a trace and simulate it, once.

    Raises:
        UsageError: nothing in the trace takes time.
    """
    kineto = built(trace)
    timeline = simulate(kineto.graph)
    if len(kineto.steps):
        steps_us = kineto.steps.measured_us
        simulated_us = kineto.steps.simulated_us(timeline.starts)
        counted = kineto.steps.inner
    else:
        end = kineto.start_us + kineto.graph.durations
        steps_us = np.array([float(end.max(initial=0.0) - kineto.start_us.min(initial=np.inf))])
        simulated_us = np.array([float(timeline.ends.max(initial=0.0) - timeline.starts.min(initial=0.0))])
        counted = slice(0, 1)
    if not steps_us[counted].max(initial=0.0) > 0:
        raise UsageError(
            "Nothing in this trace takes time: it holds no operators, calls or GPU work with a length",
            hint="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
        )
    steps_ms: list[float] = (steps_us / 1e3).tolist()
    return Recording(
        trace,
        kineto,
        timeline,
        tuple(steps_ms),
        tuple((simulated_us / 1e3).tolist()),
        counted,
        interval_of(steps_ms[counted]),
    )


def settled_ms(recording: Recording, graph: Graph, timeline: Timeline) -> float:
    """What a step takes in a run that goes on, in ms: the script's thread, or a stream that is busy for longer.

    The script's thread may run ahead of the GPU in the few steps of a recording. In a run it could not for long:
    then a step takes what its busiest stream does.
    """
    if not recording.has_steps:
        return float(timeline.ends.max(initial=0.0)) / 1e3
    first, last = ends_in(recording, graph)
    begin, end = timeline.starts[first], timeline.starts[last]
    own = float(np.median((end - begin)[recording.counted]))
    return max(own, _busiest_us(recording, timeline, begin, end)) / 1e3


def ends_in(recording: Recording, graph: Graph) -> tuple[Indices, Indices]:
    """The tasks that begin and end the steps, wherever a change has moved them to."""
    steps = recording.kineto.steps
    if graph.structure is recording.graph.structure or not len(steps):
        return steps.first.astype(np.int64), steps.last.astype(np.int64)
    return _named_as(recording, graph, steps.first), _named_as(recording, graph, steps.last)


def _named_as(recording: Recording, graph: Graph, marks: Ids) -> Indices:
    tasks = recording.graph.tasks
    codes: list[int] = tasks.name[marks].tolist()
    return select(graph, name=tuple(tasks.names[code] for code in codes))


def _busiest_us(recording: Recording, timeline: Timeline, begin: Times, end: Times) -> float:
    """µs per step that the busiest stream takes for what the counted steps launched."""
    graph = timeline.graph
    work, step = _launched(timeline, begin, end)
    lanes, steps = len(graph.tasks.lanes), len(begin)
    cell = graph.tasks.lane[work].astype(np.int64) * steps + step
    busy = np.bincount(cell, (graph.durations + graph.gaps)[work], lanes * steps)
    per_step = busy.reshape(lanes, steps)[:, recording.counted]
    return float(np.median(per_step, axis=1).max(initial=0.0))


def _launched(timeline: Timeline, begin: Times, end: Times) -> tuple[Ids, Indices]:
    """The GPU's work that was launched within some spans of time, which are in order, and in which of them."""
    tasks, found = timeline.graph.tasks, launches(timeline.graph)
    # What was launched before the recording hangs on a point of the script's thread and on no launch.
    found = found.taken(tasks.kind[found.source] != KIND[TaskKind.CPU])
    called = timeline.starts[found.source]
    span = np.searchsorted(begin, called, side="right") - 1
    inside = (span >= 0) & (called < end[np.maximum(span, 0)])
    return found.target[inside], span[inside].astype(np.int64)
