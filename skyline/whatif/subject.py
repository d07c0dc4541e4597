"""The script that every question is about, with the facts from a profile or from a trace of PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cached_property

import numpy as np

from skyline.graph.build import main_lane
from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.task import Part
from skyline.graph.threads import ThreadUse, thread_use
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels, recorded_levels
from skyline.memory.peak import MemoryBreakdown
from skyline.predict.batch_curve import BatchCurve, batch_curve
from skyline.simulate.critical_path import critical_path
from skyline.simulate.critical_shares import CriticalPath
from skyline.simulate.engine import Timeline, simulate, steady_step_ms
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, PhaseTimes, Record, RecordKind, Trace
from skyline.units import format_share
from skyline.whatif.blocks import open_blocks
from skyline.whatif.calibration import REPETITIONS, OwnHost, calibrated
from skyline.whatif.constant import EXAMPLES, Constant
from skyline.whatif.cost.tried_iterations import TriedIterations
from skyline.whatif.memory import Memory
from skyline.whatif.recording import Recording

UNSEEN_GPU = "the profiler recorded none of the GPU's work; skyline doctor shows the reason and the remedy"
"""The reason why rules and what-ifs about the GPU's work give no answer for such a profile."""

SAMPLED = "an iteration has too many operators to record each"
"""The reason why rules and what-ifs about operators give no answer for such a profile."""

NEEDS_PROFILE = "a trace does not show this; profile the script: skyline profile SCRIPT"
"""The reason why what-ifs that need more than operators give no answer for a trace."""

DOUBTFUL_REPLAY = 0.05
"""If the simulation error of a trace is larger than this, every answer shows it."""
REFUSED_REPLAY = 0.10
"""With a larger simulation error, a trace gives no predictions."""


_CALL_PERCENTILE = 0.1
"""The fastest tenth of the operators gives the cost of a call without significant memory traffic."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Composition of the recorded optimizer time: the memory traffic and the fastest call.

    Time of the operators beyond the cost of a bare call is memory traffic. The remainder is calls and Python.
    ``in_place_us`` is the traffic per iteration, in µs, of operators that write in place; 0 if there are none. Other
    operators write to newly allocated memory and also wait for the system to provide it. That wait varies between
    iterations.
    """

    traffic_share: float
    call_share: float
    in_place_us: float = 0.0


def step_cost(trace: Trace) -> StepCost:
    """The cost of the optimizer step on the main lane. Without recorded operators, all time counts as traffic."""
    lane = main_lane(trace)
    records = [record for record in trace.records if record.phase is Phase.OPTIMIZER and record.lane == lane]
    operators = sorted(record.duration_us for record in records if record.kind is RecordKind.OPERATOR)
    total_us = sum(record.duration_us for record in records)
    if not operators or total_us <= 0:
        return StepCost(1.0, 0.0)
    call_us = operators[int(_CALL_PERCENTILE * (len(operators) - 1))]
    iterations = max(1, len(trace.iterations))
    traffic_us = max(0.0, sum(operators) - len(operators) * call_us)
    return StepCost(traffic_us / total_us, call_us * iterations / total_us, _in_place_us(records, call_us))


def _in_place_us(records: Sequence[Record], call_us: float) -> float:
    """The traffic time of in-place operators per iteration, in µs.

    PyTorch's naming rule tells them: a trailing ``_`` marks a write to the first argument.
    """
    by_iteration: dict[int, float] = {}
    for record in records:
        one_tensor = record.kind is RecordKind.OPERATOR and "_foreach_" not in record.name
        if one_tensor and record.name.endswith("_"):
            beyond = max(0.0, record.duration_us - call_us)
            by_iteration[record.iteration] = by_iteration.get(record.iteration, 0.0) + beyond
    return median(tuple(by_iteration.values())) if by_iteration else 0.0


_AS_RECORDED = OwnHost()
_NO_PEAK = MemoryBreakdown(0, 0, 0, 0, 0)
_NO_CURVE = BatchCurve(None, (), NEEDS_PROFILE)
_NO_STEP = StepCost(1.0, 0.0)


class Grain(int, Enum):
    """The granularity of the tasks in a graph; a coarser graph takes less time to simulate."""

    PHASES = 0
    """A task for each stretch of one kind of work in one phase."""
    OPERATORS = 1
    """A task for each operator, call, kernel and copy, with its module, line and shapes."""


class NotKnown(Exception):
    """Raised if a question needs a fact that its subject does not have; the message says how to get it."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The unchanged script: its graph with calibrated times, the simulation of that graph, and all other known facts.

    A profile adds sources, loaders, optimizers, memory by owner, the batch curve and trials (``profile``); a
    trace adds the profiler's own events and steps (``recording``). A what-if or rule asks for the fact that
    it needs: ``script`` and ``recorded`` raise ``NotKnown`` if the fact is missing, which makes the what-if
    not applicable and the rule silent.
    """

    graph: Graph
    outline: Graph
    """The graph without lines, small enough to be simulated while a user drags a slider. For a trace, the
    whole graph."""
    lane: str
    """The lane of the script's own thread."""
    iteration_ms: Interval
    timeline: Timeline
    """The simulation of ``graph``."""
    steps: int
    """Number of iterations in the graphs."""
    replay_error: float
    on_gpu: bool
    """True if the script computes on a device other than the CPU."""
    gpu_recorded: bool
    """True if the work of that device was recorded; the profiler is not always allowed to see it."""
    device_name: str
    peak_bytes: Interval | None = None
    profile: Profile | None = None
    recording: Recording | None = None
    simulated_ms: float = 0.0
    """The simulated iteration; on a CPU it equals the median of ``iteration_ms``."""
    parts_ms: Mapping[Part, float] = field(default_factory=dict[Part, float])
    phases: PhaseTimes = field(default_factory=PhaseTimes)
    peak: MemoryBreakdown = _NO_PEAK
    batch_tensors: tuple[int, ...] = ()
    """Bytes of each tensor of a batch as the loader delivers it."""
    billed_us: tuple[float, ...] = ()
    """The time of each task of ``graph``, in µs: on the script's own thread, and on a GPU while it works."""
    host: OwnHost = _AS_RECORDED
    """The host's own time, which the graphs contain, and the range by which it may be faster or slower."""
    range_factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """The factor for modelled ranges by what-if or combination, from earlier verifications on this machine."""
    uncalibrated: Graph | None = field(default=None, repr=False)
    """The recorded graph of a profile with a task for each operator, without delays; None for a trace."""
    tried: TriedIterations | None = None
    """Times of the recorded operators in other number formats and thread counts; None if none were tried."""

    @property
    def script(self) -> Profile:
        """The profile of the script. Raises ``NotKnown`` for a trace, which has no sources, loaders or modules."""
        if self.profile is None:
            raise NotKnown(NEEDS_PROFILE)
        return self.profile

    @property
    def recorded(self) -> Recording:
        """The profiler's own trace. Raises ``NotKnown`` for a profile."""
        if self.recording is None:
            raise NotKnown("not known from a profile")
        return self.recording

    @property
    def trains(self) -> bool:
        """False for a script whose iterations only call a model."""
        return self.profile is None or self.profile.trains

    @property
    def has_run(self) -> bool:
        """True if a run of the script was profiled; False for a prediction or a trace."""
        return self.profile is not None and self.profile.prediction is None

    @property
    def ran_on_cpu(self) -> bool:
        """True if a run of the script on a CPU was profiled."""
        return self.has_run and not self.on_gpu

    @property
    def unrecorded(self) -> str:
        """The reason why operators or the work of the device are missing from the recording; empty if they are not."""
        if self.profile is not None and self.profile.trace.sampled:
            return SAMPLED
        return UNSEEN_GPU if self.on_gpu and not self.gpu_recorded else ""

    @property
    def refusal(self) -> str:
        """The reason why nothing is predicted from this subject; empty if answers are given."""
        if self.recording is None or self.replay_error <= REFUSED_REPLAY:
            return ""
        error = format_share(self.replay_error)
        return (
            f"the simulation of a recorded step differs by {error} from the measurement: the model does "
            "not fit this trace"
        )

    @property
    def samples(self) -> int | None:
        """Samples in one iteration; None if unknown."""
        return (
            None
            if self.profile is None
            else self.profile.batch.samples_per_iteration or self.profile.batch_size
        )

    @property
    def batch_size(self) -> int | None:
        """The batch size of the script; None if unknown."""
        return None if self.profile is None else self.profile.batch_size

    @cached_property
    def curve(self) -> BatchCurve:
        """Time and memory as functions of the batch size."""
        return _NO_CURVE if self.profile is None else batch_curve(self.profile)

    @cached_property
    def step(self) -> StepCost:
        """Composition of the recorded optimizer steps."""
        return _NO_STEP if self.profile is None else step_cost(self.profile.trace)

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch as the loader delivers it."""
        return sum(self.batch_tensors)

    @cached_property
    def memory(self) -> Memory | None:
        """The memory over the iteration; None for a trace, which does not show owners."""
        return None if self.profile is None else Memory.of(self.peak, self.levels)

    @property
    def cpu_features(self) -> tuple[str, ...] | None:
        """The instruction sets of the processor; None if unknown."""
        return None if self.profile is None else self.profile.environment.cpu_features

    @cached_property
    def runs_ahead(self) -> bool:
        """True if the graphs show a measured script whose thread runs ahead of a GPU."""
        return self.gpu_recorded and self.has_run

    @cached_property
    def gpu_lags(self) -> bool:
        """True if the recorded steps launched more work than the GPU completed in the same time."""
        return self.recording is not None and self.recording.gpu_lags

    @property
    def running_ms(self) -> Interval:
        """The iteration time in a long run, in ms: longer than the recorded one if the GPU lags behind."""
        return self.iteration_ms if self.recording is None else self.recording.running_ms

    @property
    def count(self) -> int:
        """Number of iterations that figures are computed over: in a trace, all but the first and the last."""
        return self.steps if self.recording is None else self.recording.count

    @cached_property
    def window_us(self) -> tuple[float, float]:
        """Begin and end of the simulated time that figures cover; without the run-in if the thread runs ahead.

        In a longer run, the GPU work of the last iteration would overlap with the next iteration.
        """
        if self.recording is not None:
            return self.recording.window_us
        ends = self.timeline.iteration_ends_us(self.lane)
        if not self.runs_ahead or len(ends) < 2:
            return 0.0, self.timeline.makespan_us
        return ends[0], ends[-1]

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The critical path, with the share of each kind of work that an iteration waits for."""
        return critical_path(self.timeline, *self.window_us)

    def counted(self, tasks: Indices) -> Flags:
        """Flags of the tasks of the unchanged graph that belong to the counted iterations."""
        if self.recording is None:
            return np.ones(len(tasks), np.bool_)
        begin, end = self.window_us
        start = self.timeline.starts[tasks]
        return (start >= begin) & (start < end)

    def step_marks(self, graph: Graph) -> Indices:
        """The tasks at which the steps of a trace begin and end, which no change may move; none in a profile."""
        if self.recording is None:
            return np.empty(0, np.int64)
        return np.concatenate(self.recording.ends_in(graph))

    @cached_property
    def operators(self) -> Graph:
        """The graph with a task for each operator, calibrated like the others."""
        if self.uncalibrated is None:
            return self.graph
        own = self.host.applied(self.uncalibrated, self.lane)
        return calibrated(own, self.lane, self.parts_ms, self.iteration_ms, ahead=self.runs_ahead)

    @cached_property
    def thread_use(self) -> ThreadUse:
        """The part of the computation that runs on several threads."""
        return thread_use(self.script.trace)

    @cached_property
    def levels(self) -> RecordedLevels | None:
        """The memory levels over the recorded iteration, and the memory that the model's blocks keep; or None."""
        if self.profile is None:
            return None
        trace = self.profile.trace
        return recorded_levels(self.profile.memory, trace, open_blocks(self.profile, trace.modules))

    def graph_of(self, grain: Grain) -> Graph:
        """The graph of the unchanged script, at this grain or a finer one."""
        return self.outline if grain is Grain.PHASES else self.operators

    def step_ms(self, graph: Graph) -> float:
        """The simulated iteration time of a changed graph in a long run, in ms."""
        if self.recording is not None:
            return self.recording.step_ms(graph)
        if self.runs_ahead:
            return steady_step_ms(graph, at_most=REPETITIONS)
        # Stitched graphs reach a steady state in their first half; a graph of the recorded iterations after
        # one iteration.
        run_in = max(1, len(graph.iterations) // 2) if len(graph.structure.lanes) > 1 else 1
        return simulate(graph).iteration_ms(self.lane, skip=run_in)


def shapes(subject: Subject, graph: Graph, chosen: Indices) -> list[OperatorShape | None]:
    """The operator call of each chosen task; None if unknown, as for all tasks of a trace."""
    profile = subject.profile
    if profile is None:
        return [None] * len(chosen)
    trace = profile.trace
    rows: list[int] = graph.tasks.origin[chosen].tolist()
    of_rows = [trace.records[row].shape if row >= 0 else -1 for row in rows]
    return [trace.shapes[shape] if shape >= 0 else None for shape in of_rows]


def bytes_moved(subject: Subject, graph: Graph, chosen: Indices) -> Times:
    """The least number of bytes that each chosen task reads and writes, 0 if unknown; for a copy, the bytes copied."""
    if subject.recording is not None:
        origin = graph.tasks.origin[chosen]
        known = np.where(origin >= 0, subject.recording.trace.size_bytes[np.maximum(origin, 0)], 0)
        return known.astype(np.float64)
    return np.array(
        [0.0 if one is None else float(one.bytes_moved) for one in shapes(subject, graph, chosen)]
    )


BETWEEN_PROCESSES = Constant(
    0.043,
    0.025,
    0.070,
    "benchmarks/process_spread.py: nine in ten of 21 pairs of processes that took turns on an EPYC differ by less, "
    "7 % at most; 2.5 % on a Xeon. A range is meant to hold on either",
    set_on=(
        *EXAMPLES,
        "benchmarks/ground_truth_models/bert.py",
        "benchmarks/ground_truth_models/dlrm.py",
        "benchmarks/ground_truth_models/gpt2.py",
        "benchmarks/ground_truth_models/lstm.py",
        "benchmarks/ground_truth_models/resnet50.py",
        "karpathy/makemore/makemore.py",
        "karpathy/minGPT/projects/adder/adder.py",
        "karpathy/nanoGPT/train.py",
        "pytorch/examples/mnist_rnn/main.py",
        "pytorch/examples/word_language_model/main.py",
    ),
    machine="two cores of an Intel Xeon, and two of an AMD EPYC",
)
"""Share of the iteration by which another process of the same script is slower or faster."""


def process_spread(subject: Subject) -> float:
    """``BETWEEN_PROCESSES`` for a script that was measured on a CPU; 0 for others, for which it was not measured.

    A prediction is about a run in a process other than the profiled one. Two processes of one script have
    their memory at different addresses and different free blocks in it, for as long as they live.
    """
    return BETWEEN_PROCESSES.value if subject.ran_on_cpu else 0.0
