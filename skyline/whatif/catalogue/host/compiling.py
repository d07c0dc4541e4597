"""The cost of ``torch.compile``: once for compiling, and in each iteration for calling the compiled code."""

from __future__ import annotations

from collections import Counter

import numpy as np

from skyline.graph.column import Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind
from skyline.interval import Interval
from skyline.trace.kineto.category import Category
from skyline.trace.record import Phase, RecordKind
from skyline.whatif.catalogue.host.fusion import Regions
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.cost.operator_call import MOST_US, call_us, dispatch_us
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject

# The constants of the model: µs of each call, and seconds of one processor core that compiling takes once.
_BENCHMARK = "benchmarks/compile_cost.py"
FORWARD_CALL = Constant.at(
    110.0, "a compiled forward graph: its guards, and tensors passed through autograd", EXAMPLES, XEON
)
BACKWARD_CALL = Constant.at(170.0, "a compiled backward graph, called from autograd", EXAMPLES, XEON)
FORWARD_CALL_ON_CPU = Constant.at(
    220.0,
    "benchmarks/compiled_iterations.py: 22 small operators of a recorded backward pass, each at its most; other work "
    "of an iteration takes the caches from the guards",
)
PARAMETER = Constant.at(
    7.2, "benchmarks/compiled_iterations.py: the guards of one parameter, in the same way"
)
_KERNEL_CALL = Constant.at(7.0, "an assumption: the launch of one kernel from generated code")
KERNEL_CALL_US = _KERNEL_CALL.value
_START_S = Constant.at(
    12.0, f"{_BENCHMARK}: the compiler is loaded, and compiles PyTorch's headers once", machine=XEON
)
_PER_KERNEL_S = Constant.at(0.6, f"{_BENCHMARK}: for each kernel that is generated", machine=XEON)
_PER_OPERATOR_S = Constant.at(0.035, f"{_BENCHMARK}: for each operator that is traced", machine=XEON)
_PER_GRAPH_S = Constant.at(0.5, f"{_BENCHMARK}: for each graph after the first", machine=XEON)
_RANGE = Constant(1.0, 0.4, 2.5, f"{_BENCHMARK}: warm caches and many cores, or a slow machine", machine=XEON)
_TUNING = Constant.at(5.0, "an assumption: each kernel is tried out in several variants")
_TRAINED = "AccumulateGrad"
"""The node that each trained parameter has in a backward pass."""


def graph_calls_us(subject: Subject, graph: Graph, found: Regions) -> Times:
    """The time in µs to call each compiled graph of ``found.entries``, before ``call_scale``.

    On a CPU the guards of a forward graph take longer with each trained parameter of its model.
    """
    forward = np.isin(found.entries, found.heads)
    if subject.on_gpu:
        return np.where(forward, FORWARD_CALL.value, BACKWARD_CALL.value)
    steps = max(1, subject.steps)
    parameters = len(select(graph, name=_TRAINED)) / steps
    graphs = max(1.0, _compiled_share(found, subject, graph) * len(found.heads) / steps)
    forward_us = FORWARD_CALL_ON_CPU.value + PARAMETER.value * parameters / graphs
    return np.where(forward, forward_us, BACKWARD_CALL.value)


def call_scale(subject: Subject, graph: Graph) -> float:
    """The ratio of the cost of calls on this machine to the constants; 1 on a GPU, or if unknown.

    A piece of generated code takes as long as an operator of the backward pass that computes next to nothing:
    3.2 and 2.9 µs on an EPYC (``benchmarks/compiled_calls.py``). The calls of graphs scale in proportion.
    """
    return 1.0 if subject.on_gpu else call_us(subject, graph, Phase.BACKWARD) / MOST_US


def without_calls(subject: Subject, recorded: Graph, graph: Graph, found: Regions) -> Graph:
    """The graph without PyTorch's call overhead in each CPU operator."""
    if subject.on_gpu:
        return graph
    durations = graph.durations.copy()
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        inside = found.host[graph.tasks.phase[found.host] == PHASE[phase]]
        durations[inside] = np.maximum(0.0, durations[inside] - dispatch_us(subject, recorded, phase))
    return graph.with_times(durations)


def compiling_s(found: Regions, subject: Subject, graph: Graph, *, tuned: bool = False) -> Interval:
    """The seconds until the first iterations are compiled, from the amount of ``graph`` to compile.

    Measured on CPUs only, where C++ is generated; with ``tuned``, kernels are also tried out.
    """
    steps = max(1, subject.steps)
    share = _compiled_share(found, subject, graph)
    graphs = max(1.0, share * len(found.entries) / steps)
    seconds = (
        _START_S.value
        + _PER_KERNEL_S.value * found.kernels
        + _PER_OPERATOR_S.value * share * found.operators
        + _PER_GRAPH_S.value * (graphs - 1)
    )
    if tuned:
        seconds *= _TUNING.value
    return _RANGE.scaled(seconds)


def _compiled_share(found: Regions, subject: Subject, graph: Graph) -> float:
    """The share of an iteration's graphs that are compiled separately.

    A model that is called several times, as for each step of a sequence, is compiled once.
    """
    profile = subject.profile
    if profile is None or not len(found.entries):
        return 1.0
    calls = {one.path: max(1.0, one.calls_per_iteration) for one in profile.modules if "." not in one.path}
    codes: list[int] = graph.tasks.module[found.entries].tolist()
    roots = [graph.structure.modules[code].partition(".")[0] if code >= 0 else "" for code in codes]
    return sum(1 / calls.get(root, 1.0) for root in roots) / len(roots)


def shapes_change(subject: Subject) -> bool:
    """True if the recorded iterations called the operators of the forward pass with different shapes.

    A trace without shapes shows at least whether other operators were called.
    """
    if subject.recording is not None:
        return len(_called(subject.recording)) > 1
    called: dict[int, Counter[int]] = {}
    if subject.profile is not None:
        for record in subject.profile.trace.records:
            if record.phase is Phase.FORWARD and record.shape >= 0 and record.kind is not RecordKind.KERNEL:
                called.setdefault(record.iteration, Counter())[record.shape] += 1
    each = list(called.values())
    return any(one != each[0] for one in each[1:])


def _called(recording: Recording) -> set[bytes]:
    """The distinct sets of operator calls, with shapes and counts, in the forward passes of counted steps."""
    trace, tasks = recording.trace, recording.graph.tasks
    forward = select(recording.graph, phase=Phase.FORWARD, kind=TaskKind.CPU, lane=recording.lane)
    if not recording.has_steps:
        return set()
    # An event may be several tasks; it counts once in each iteration.
    size = np.int64(len(trace) + 1)
    iteration, row = np.divmod(
        np.unique(tasks.iteration[forward] * size + recording.kineto.event[forward] + 1), size
    )
    operators = trace.category[row - 1] == Category.CPU_OP
    iteration, row = iteration[operators], row[operators] - 1
    called = trace.name[row] * np.int64(len(trace.strings)) + trace.shapes[row]
    counted = np.unique(iteration)[recording.counted]
    return {np.sort(called[iteration == one]).tobytes() for one in counted}
