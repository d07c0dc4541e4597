"""The facts that a trace of PyTorch's profiler adds to a subject: its events, its steps and their simulation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.graph.assembly import KinetoGraph
from skyline.graph.column import Ids, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import KIND, ON_GPU, PHASE, TaskKind, WorkClass, work_class
from skyline.interval import Interval, median
from skyline.simulate.engine import Timeline, simulate
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.record import Phase

_RUNS_AHEAD = 0.02
"""The relative excess of a stream's busy time over the script's thread from which the GPU counts as lagging."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A trace, its graph and the simulation of the unchanged graph.

    A recording without steps counts as a single step. Of several steps, the first inherits work from before
    the recording and the last is cut off at its end: ``counted`` selects the steps that figures are computed
    over.
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
    def lane(self) -> str:
        """The lane of the script's own thread."""
        return self.kineto.main

    @property
    def steps(self) -> int:
        """Number of steps in the graph."""
        return len(self.steps_ms)

    def step_ms(self, graph: Graph) -> float:
        """Time of a step of a changed graph in a long run, in ms: see ``settled_ms``."""
        return self.settled_ms if graph is self.graph else self._settled_ms(graph, simulate(graph))

    @property
    def has_steps(self) -> bool:
        """True if the script marked steps, or if batches or optimizer updates show them."""
        return len(self.kineto.steps) > 0

    @cached_property
    def window_us(self) -> tuple[float, float]:
        """Begin and end of the counted steps in the simulation; of the work they launched if the GPU lags behind."""
        if not self.has_steps:
            return 0.0, self.timeline.makespan_us
        starts, (begin, end) = self.timeline.starts, self._span_us
        if not self.gpu_lags:
            return begin, end
        work = _launched(self.timeline, np.array([begin]), np.array([end]))[0]
        return float(starts[work].min()), float(self.timeline.ends[work].max())

    @property
    def count(self) -> int:
        """Number of counted steps."""
        return len(self.steps_ms[self.counted])

    @cached_property
    def replay_error(self) -> float:
        """The mean over the counted steps of |simulated - measured| / measured."""
        pairs = zip(self.simulated_steps_ms[self.counted], self.steps_ms[self.counted], strict=True)
        errors = [abs(simulated - measured) / measured for simulated, measured in pairs if measured > 0]
        return sum(errors) / len(errors) if errors else 0.0

    @property
    def on_gpu(self) -> bool:
        """True if work ran on streams."""
        return bool(ON_GPU[self.graph.tasks.kind].any())

    @cached_property
    def settled_ms(self) -> float:
        """Time of a step in the unchanged simulation, in a long run, in ms."""
        return self._settled_ms(self.graph, self.timeline)

    @property
    def running_ms(self) -> Interval:
        """Time of a step in a long run, in ms: as measured, or longer if the recorded script ran ahead."""
        simulated = median(self.simulated_steps_ms[self.counted])
        longer = self.settled_ms / simulated if simulated > 0 else 1.0
        return self.iteration_ms.scaled(longer) if longer > 1 + _RUNS_AHEAD else self.iteration_ms

    @property
    def gpu_lags(self) -> bool:
        """True if the script launched more work in its steps than the GPU completed in the same time."""
        return self.running_ms is not self.iteration_ms

    def _settled_ms(self, graph: Graph, timeline: Timeline) -> float:
        """Time of a step in a long run, in ms: that of the script's thread, or of a stream that is busy for longer.

        The script's thread may run ahead of the GPU in the few steps of a recording, but not in a long run:
        there a step takes as long as its busiest stream.
        """
        if not self.has_steps:
            return float(timeline.ends.max(initial=0.0)) / 1e3
        first, last = self.ends_in(graph)
        begin, end = timeline.starts[first], timeline.starts[last]
        own = float(np.median((end - begin)[self.counted]))
        return max(own, self._busiest_us(timeline, begin, end), self._inherited_us(graph)) / 1e3

    def _inherited_us(self, graph: Graph) -> float:
        """The time in µs of the busiest stream within a single step, including work of the step before it.

        In a long run it leaves as much work to the next step. If there are several steps, each shows its own
        work. A stream of collectives waits for other ranks, and is not counted.
        """
        if self.count > 1:
            return 0.0
        tasks, timeline = self.graph.tasks, self.timeline
        working = ON_GPU[tasks.kind] & (tasks.phase != PHASE[Phase.COMMUNICATION])
        begin, end = self._span_us
        inside = np.clip(timeline.ends, begin, end) - np.clip(timeline.starts, begin, end)
        most = 0.0
        used: list[int] = np.unique(tasks.lane[working]).tolist()
        for name in (tasks.lanes[code] for code in used):
            before = working & (tasks.lane == tasks.lane_code(name))
            after = graph.tasks.lane == graph.tasks.lane_code(name)
            left = float(graph.durations[after].sum()) / max(1e-9, float(self.graph.durations[before].sum()))
            most = max(most, left * float(inside[before].sum()))
        return most

    @cached_property
    def _span_us(self) -> tuple[float, float]:
        starts, steps = self.timeline.starts, self.kineto.steps
        return float(starts[steps.first[self.counted][0]]), float(starts[steps.last[self.counted][-1]])

    def ends_in(self, graph: Graph) -> tuple[Indices, Indices]:
        """The tasks that begin and end the steps, at the places to which a change has moved them."""
        steps = self.kineto.steps
        if graph.structure is self.graph.structure or not len(steps):
            return steps.first.astype(np.int64), steps.last.astype(np.int64)
        return self._named_as(graph, steps.first), self._named_as(graph, steps.last)

    def _named_as(self, graph: Graph, marks: Ids) -> Indices:
        tasks = self.graph.tasks
        codes: list[int] = tasks.name[marks].tolist()
        return select(graph, name=tuple(tasks.names[code] for code in codes))

    def _busiest_us(self, timeline: Timeline, begin: Times, end: Times) -> float:
        """The time per step, in µs, that the busiest stream takes for the work that the counted steps launched."""
        graph = timeline.graph
        work, step = _launched(timeline, begin, end)
        lanes, steps = len(graph.tasks.lanes), len(begin)
        cell = graph.tasks.lane[work].astype(np.int64) * steps + step
        busy = np.bincount(cell, (graph.durations + graph.gaps)[work], lanes * steps)
        per_step = busy.reshape(lanes, steps)[:, self.counted]
        return float(np.median(per_step, axis=1).max(initial=0.0))


def _launched(timeline: Timeline, begin: Times, end: Times) -> tuple[Ids, Indices]:
    """The GPU's work that was launched within given time spans, in order, and the span of each launch."""
    tasks, found = timeline.graph.tasks, launches(timeline.graph)
    # Work launched before the recording depends on a point of the script's thread, not on a launch.
    found = found.taken(tasks.kind[found.source] != KIND[TaskKind.CPU])
    called = timeline.starts[found.source]
    span = np.searchsorted(begin, called, side="right") - 1
    inside = (span >= 0) & (called < end[np.maximum(span, 0)])
    return found.target[inside], span[inside].astype(np.int64)


_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")
_NARROW_KERNEL = re.compile(
    r"(?<![a-z])(bf16|fp16|f16|h?884|half|bfloat16)(?![0-9])|16816|h1688", re.IGNORECASE
)


def optimizer_names(recording: Recording) -> tuple[str, ...]:
    """The classes of the optimizers that made a step, in the order of their first step."""
    found = (_STEP.match(name) for name in _names(recording, Category.ANNOTATION, Category.CPU_OP))
    return tuple(dict.fromkeys(match[1] for match in found if match))


def has_loader_workers(recording: Recording) -> bool:
    """True if a ``DataLoader`` with worker processes delivered batches."""
    return any(
        "_MultiProcessingDataLoaderIter" in name
        for name in _names(recording, Category.ANNOTATION, Category.CPU_OP)
    )


def computes_in_16_bits(recording: Recording) -> bool:
    """True if matrix products and similar operators had 16-bit inputs, by recorded types or kernel names."""
    trace = recording.trace
    heavy = np.array([work_class(text) is not WorkClass.OTHER for text in trace.strings])[trace.name]
    types: list[int] = np.unique(trace.types[heavy & (trace.category == Category.CPU_OP)]).tolist()
    kernels: list[int] = np.unique(trace.name[heavy & (trace.category == Category.KERNEL)]).tolist()
    return any("BFloat16" in trace.strings[row] or "Half" in trace.strings[row] for row in types) or any(
        _NARROW_KERNEL.search(trace.strings[row]) is not None for row in kernels
    )


def device_name(recording: Recording) -> str:
    """The name of the GPU that the recorded work ran on; ``GPU`` if the trace does not name it; ``CPU`` without one."""
    trace = recording.trace
    if not recording.on_gpu:
        return "CPU"
    used = set(np.unique(trace.device[trace.of(Category.KERNEL, Category.COPY)]).tolist())
    names = dict.fromkeys(one.name for one in trace.devices if one.name and one.index in used)
    return ", ".join(names) or {"amd": "AMD GPU", "nvidia": "NVIDIA GPU"}.get(trace.vendor, "GPU")


def compute_capability(recording: Recording) -> tuple[int, int]:
    """The compute capability of the weakest NVIDIA GPU in use; (0, 0) if unknown."""
    trace = recording.trace
    used = set(np.unique(trace.device[trace.of(Category.KERNEL)]).tolist())
    known = [(one.compute_major, one.compute_minor) for one in trace.devices if one.index in used]
    return min((one for one in known if one[0] > 0), default=(0, 0)) if trace.vendor != "amd" else (0, 0)


def peak_bytes(recording: Recording) -> int | None:
    """The largest allocated size on the device, in bytes; None if the profiler recorded no memory."""
    allocations = recording.trace.allocations
    here = (allocations.device >= 0) == recording.on_gpu
    level = allocations.allocated_bytes[here]
    return int(level.max()) if len(level) and level.max() > 0 else None


def _names(recording: Recording, *categories: Category) -> list[str]:
    trace = recording.trace
    rows = np.isin(trace.category, [int(one) for one in categories])
    used: list[int] = np.unique(trace.name[rows]).tolist()
    return [trace.strings[row] for row in used]
