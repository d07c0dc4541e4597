"""The script as it stands: what every what-if starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.graph.build import build, main_lane
from skyline.graph.calibrate import calibrate, scale_host_to
from skyline.graph.coalescing import coalesce
from skyline.graph.graph import Graph
from skyline.graph.launch_ahead import one_iteration_ahead
from skyline.graph.outlier_removal import steadied
from skyline.graph.part import Part, part_shares
from skyline.graph.phases import phase_times
from skyline.graph.step_cost import StepCost, step_cost
from skyline.graph.tasks import ON_GPU
from skyline.graph.threads import ThreadUse, thread_use
from skyline.interval import Interval
from skyline.memory.activations import batch_tensors
from skyline.memory.peak import MemoryBreakdown, peak_breakdown
from skyline.memory.recomputation import RecordedLevels, recorded_levels
from skyline.predict.batch_curve import BatchCurve, batch_curve
from skyline.simulate.billing import billed_phases, billed_us
from skyline.simulate.engine import simulate
from skyline.simulate.replay import replay_error
from skyline.simulate.steady import steady_step_ms
from skyline.simulate.timeline import Timeline
from skyline.spread import interval_of
from skyline.trace.phase import PhaseTimes
from skyline.trace.profile import Profile
from skyline.whatif.blocks import open_blocks
from skyline.whatif.cost.tried_iterations import TriedIterations, tried_iterations
from skyline.whatif.memory import Memory
from skyline.whatif.subject import Grain

_MOST_HALVINGS = 30
_ABOUT = 0.05
"""Kernels differ by as much between the recorded iterations and the bare ones."""

_TENTH = 0.1
_HAS_ROOM = 0.2
"""Of what a step changes where the host alone makes it: below this share it waits for its GPU."""

_REPETITIONS = 8
"""Of the recorded iterations; after as many, lanes that do not wait for one another tell which is the slowest."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """A profile's graph with bare times, and what else the what-ifs and findings look at.

    ``lane`` is the script's own thread. ``outline`` is the graph without its lines, small enough to be
    simulated while a person drags; ``operators`` is the one with a task for each operator. ``simulated_ms`` is what
    all of them simulate to; on a CPU it equals the median of ``iteration_ms``. ``timeline`` is the simulation of
    ``graph``.
    """

    profile: Profile
    graph: Graph
    outline: Graph
    lane: str
    iteration_ms: Interval
    simulated_ms: float
    parts_ms: dict[Part, float]
    phases: PhaseTimes
    peak: MemoryBreakdown
    curve: BatchCurve
    batch_tensors: tuple[int, ...]
    """Bytes of each tensor of a batch as the loader gives it."""
    step: StepCost
    timeline: Timeline
    replay_error: float
    billed_us: tuple[float, ...]
    """By task of ``graph``, what the lines and phases are made of: the time of the script's own thread, and of a GPU
    while it works."""
    gpu_recorded: bool = False
    """Whether what a GPU did is known: on a CPU there is none, and the profiler may not have been allowed to."""
    tried: TriedIterations | None = None
    """What the recorded operators take in other manners; None where no iterations were tried."""

    @property
    def samples(self) -> int | None:
        """Samples in one iteration, where that could be seen."""
        return self.profile.batch.samples_per_iteration or self.profile.batch_size

    @property
    def on_gpu(self) -> bool:
        """Whether the script computes on a device of its own."""
        return self.profile.environment.device.kind != "cpu"

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch as the loader gives it."""
        return sum(self.batch_tensors)

    @property
    def steps(self) -> int:
        """How many iterations the graphs hold."""
        return max(1, len(self.graph.iterations))

    @property
    def memory(self) -> Memory:
        """The peak by owner."""
        return Memory.of(self.peak)

    @cached_property
    def runs_ahead(self) -> bool:
        """Whether the graphs are of a script that was measured as its thread runs ahead of a GPU."""
        return self.gpu_recorded and self.profile.prediction is None

    @cached_property
    def window_us(self) -> tuple[float, float]:
        """From when to when the timeline is looked at: where the thread runs ahead, the first iteration is run-in.

        The last one's work on the GPU would go on beside the next one's.
        """
        ends = self.timeline.iteration_ends_us(self.lane)
        if not self.runs_ahead or len(ends) < 2:
            return 0.0, self.timeline.makespan_us
        return ends[0], ends[-1]

    @cached_property
    def operators(self) -> Graph:
        """The graph with a task for each operator, calibrated like the others."""
        recorded = build(self.profile.trace, merged=False)
        if self.runs_ahead:
            recorded = one_iteration_ahead(recorded, self.lane)
        settled = _settled(recorded, self.tried)
        return _calibrated(settled, self.lane, self.parts_ms, self.iteration_ms, ahead=self.runs_ahead)

    @cached_property
    def thread_use(self) -> ThreadUse:
        """How much of the computing runs on several threads."""
        return thread_use(self.profile.trace)

    @cached_property
    def levels(self) -> RecordedLevels | None:
        """The levels of memory in the recorded iteration, and what the blocks of the model keep; None without them."""
        trace = self.profile.trace
        return recorded_levels(self.profile.memory, trace, open_blocks(self.profile, trace.modules))

    def graph_of(self, grain: Grain) -> Graph:
        """The graph of the unchanged script, of this grain or a finer one."""
        return self.outline if grain is Grain.PHASES else self.operators

    def step_ms(self, graph: Graph) -> float:
        """What an iteration of a changed graph takes in the steady state, by simulation, in ms."""
        if self.runs_ahead:
            return steady_step_ms(graph, at_most=_REPETITIONS)
        # Stitched graphs run in during their first half; a graph of the recorded iterations is steady after one.
        run_in = max(1, len(graph.iterations) // 2) if len(graph.structure.lanes) > 1 else 1
        return simulate(graph).iteration_ms(self.lane, skip=run_in)


def ran_on_cpu(subject: object) -> bool:
    """Whether a script ran, and computed on a CPU: what predictions have been held against, where they have."""
    return isinstance(subject, Baseline) and not subject.on_gpu and subject.profile.prediction is None


def baseline(profile: Profile) -> Baseline:
    """Build, calibrate and simulate the graph of a profile, once."""
    lane = main_lane(profile.trace)
    said = profile.prediction
    iteration_ms = said.iteration_ms if said is not None else interval_of(profile.times.steps_ms)
    parts_ms = {part: share * iteration_ms.value for part, share in part_shares(profile.times).items()}
    recorded = build(profile.trace, merged=False)
    tried = tried_iterations(profile)
    measured_on_gpu = said is None and bool(ON_GPU[recorded.tasks.kind].any())
    running = one_iteration_ahead(recorded, lane) if measured_on_gpu else recorded
    settled = coalesce(_settled(running, tried))
    graph = _calibrated(settled, lane, parts_ms, iteration_ms, ahead=measured_on_gpu)
    timeline = simulate(graph)
    if said is not None or measured_on_gpu:
        billed = billed_us(timeline, lane)
        phases = billed_phases(timeline, billed)
    else:
        on_lane = graph.tasks.lane == graph.tasks.lane_code(lane)
        billed = tuple(np.where(on_lane, graph.durations + graph.gaps, 0.0).tolist())
        phases = phase_times(graph, lane)
    return Baseline(
        profile,
        graph,
        _without_lines(graph),
        lane,
        iteration_ms,
        _simulated_ms(graph, lane, measured_on_gpu),
        parts_ms,
        _summing_to(phases, iteration_ms.value),
        peak_breakdown(profile),
        batch_curve(profile),
        batch_tensors(profile.trace),
        step_cost(profile.trace),
        timeline,
        replay_error(coalesce(recorded), profile.trace),
        billed,
        bool(ON_GPU[recorded.tasks.kind].any()),
        tried,
    )


def _settled(recorded: Graph, tried: TriedIterations | None) -> Graph:
    """Without hold-ups, and as it was tried where it was.

    Where lanes wait for one another, how long a task took may be what another took: all stays as it was.
    """
    if len(recorded.structure.lanes) > 1:
        return recorded
    return steadied(recorded) if tried is None else tried.settled(steadied(recorded))


def _calibrated(
    recorded: Graph, lane: str, parts_ms: dict[Part, float], iteration_ms: Interval, *, ahead: bool
) -> Graph:
    if len(recorded.structure.lanes) > 1:
        return _fit_host(recorded, lane, iteration_ms.value, ahead)
    return calibrate(recorded, lane, parts_ms)


def _without_lines(graph: Graph) -> Graph:
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def _fit_host(graph: Graph, lane: str, target_ms: float, ahead: bool) -> Graph:
    """Scale the host's work by the factor with which the graph simulates to the bare iteration time.

    Recording slows the host and not the kernels. A step that waits for its GPU does not get shorter however little
    the host does, nor longer as long as the host has room: where the factor makes next to no difference and the
    simulated time is about the bare one, the host keeps the time that was recorded.
    """

    def ms(factor: float) -> float:
        return _simulated_ms(scale_host_to(graph, lane, factor), lane, ahead)

    now_ms = _simulated_ms(graph, lane, ahead)
    low, high = (1.0, 4.0) if now_ms <= target_ms else (0.25, 1.0)
    if ahead and abs(now_ms - target_ms) <= _ABOUT * target_ms:
        # Of a host that has no room a tenth of its time is nearly a tenth of the step.
        changed_ms = abs(ms(1.0 + _TENTH if low == 1.0 else 1.0 - _TENTH) - now_ms)
        if changed_ms < _HAS_ROOM * _TENTH * now_ms:
            return graph
    for _ in range(_MOST_HALVINGS):
        middle = (low + high) / 2
        if ms(middle) > target_ms:
            high = middle
        else:
            low = middle
    return scale_host_to(graph, lane, (low + high) / 2)


def _simulated_ms(graph: Graph, lane: str, ahead: bool) -> float:
    """Ms per iteration in a run that goes on: of the busiest lane where the script's thread runs ahead of the GPU."""
    return steady_step_ms(graph, at_most=_REPETITIONS) if ahead else simulate(graph).iteration_ms(lane)


def _summing_to(phases: PhaseTimes, total_ms: float) -> PhaseTimes:
    """The phases with the rounding, or on a GPU the unmodelled rest, spread in proportion."""
    if phases.total <= 0:
        return PhaseTimes(other=total_ms)
    factor = total_ms / phases.total
    return PhaseTimes(
        phases.data * factor,
        phases.forward * factor,
        phases.backward * factor,
        phases.optimizer * factor,
        phases.communication * factor,
        phases.other * factor,
    )
