"""The operators of the passes over the model that a compiler would fuse, and their remaining time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, ON_GPU, PHASE, WORK, TaskKind, WorkClass, is_operator
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.catalogue.host.masked_indexing import read_by_mask, written_by_mask
from skyline.whatif.catalogue.host.operator_class import CostClass, kernel_class, operator_class
from skyline.whatif.catalogue.host.pooling import POOLING, PoolingFactors, PoolingKind, pooling_kinds
from skyline.whatif.catalogue.host.side_by_side import joined
from skyline.whatif.catalogue.host.skipped_frames import checkpointed_alone, left_alone
from skyline.whatif.catalogue.host.traffic import bandwidth, external_bytes, is_plain, most_numbers, traffic
from skyline.whatif.cost.thread_scaling import gained
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import Subject, shapes

_PASSES = (PHASE[Phase.FORWARD], PHASE[Phase.BACKWARD])
_BREAKS = (CostClass.READ, CostClass.FOREIGN)
_HOST = (KIND[TaskKind.CPU], KIND[TaskKind.LAUNCH])


@dataclass(frozen=True, slots=True)
class FusionBound:
    """The factors at one end of the range: for memory traffic, and for arithmetic beyond traffic.

    ``plain_ns`` is the time in ns of each number of an addition, product or comparison in a group on a CPU, on
    one core, in addition to the group's traffic (``benchmarks/compiled_arithmetic.py``). ``composite`` is the
    factor for operators that are already one optimized pass in PyTorch's own code (norms, softmax, GELU, SiLU,
    dropout); generated code for them is often slower. ``views`` is the remaining share of views, which copy if
    the next operator needs another layout. ``at_least`` and ``at_most`` bound a group relative to its present
    time. ``products`` and ``convolutions`` are factors on CPUs, where the compiler chooses other layouts for work
    that it leaves to libraries.
    """

    traffic: float
    plain_ns: float
    arithmetic: float
    composite: float
    views: float
    at_least: float
    at_most: float
    products: float
    convolutions: float
    drawing_ns: float
    """The time in ns of each random number drawn by code generated for a CPU, on one core."""
    pooling: PoolingFactors
    recomputed: float
    """The remaining share of pointwise work that checkpointing repeats: the kernels of the backward pass do
    it on data that they read anyway. Two networks with compiled and checkpointed blocks took 3 and 13 %
    longer than with compiled blocks only."""


LIKELY = FusionBound(1.0, 0.02, 0.75, 1.4, 0.5, 0.15, 1.4, 1.0, 0.88, 17.5, POOLING.likely, 0.2)
BEST = FusionBound(0.7, 0.01, 0.25, 0.6, 0.0, 0.05, 1.0, 0.95, 0.65, 12.0, POOLING.least, 0.0)
WORST = FusionBound(1.3, 0.1, 1.2, 2.5, 1.0, 0.6, 2.5, 1.12, 1.1, 30.0, POOLING.most, 0.8)
_DRAWS = (
    "aten::dropout",
    "aten::native_dropout",
    "aten::bernoulli",
    "aten::rand_like",
    "aten::feature_dropout",
)
"""Operators that draw a random number for each element. The compiler's own code for CPUs computes each from
its position, by ten rounds of Philox (Salmon et al., 2011) on one number at a time. This took 16 to 18 ns on
one machine and 18 to 23 on another, whatever it was fused with; PyTorch's operator takes 6 to 8 ns."""
_DRAWS_FROM_NS = 1.0
"""A dropout that took less time per number drew none: the model was in evaluation mode."""
_ONLY_DRAWN = 0.45
"""The share of a dropout's time for its random numbers by ``rand``: 2.7 of 6.2 ns were measured. The compiler
calls ``rand`` if blocks are checkpointed: the numbers are drawn again from a saved state, which its own code
for CPUs cannot do (``run_and_save_rng_state``)."""
_DIVIDED_PART = 0.95
"""The part of the arithmetic that threads divide among them, in generated code."""
_COMPOSITE = (
    "layer_norm", "layernorm", "batch_norm", "batchnorm", "group_norm", "groupnorm", "softmax", "gelu", "rms_norm",
    "instance_norm", "pool", "embedding", "dropout", "masked_fill", "maskedfill", "silu", "softplus", "mish",
)  # fmt: skip
_QUICKER_CHANNELS_LAST = ("batch_norm", "batchnorm")
"""With convolutions, the compiler stores a CPU's images channels last. In this layout these operators cost no
more than the arithmetic of their neighbours: PyTorch's own code takes a third of its time there
(``channels_last``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Neighbouring tasks that become one kernel, and their operator calls if known.

    ``external_bytes`` is the traffic of the fused kernel, ``alone_bytes`` the traffic of each task by itself.
    """

    tasks: Indices
    calls: tuple[OperatorShape, ...]
    composite: Flags
    external_bytes: int = 0
    alone_bytes: Times | None = None
    plain: Times | None = None
    """The count of numbers of each task that does little arithmetic with each; 0 for other tasks. None on a GPU,
    which hides this arithmetic behind the traffic."""
    drawn: Times | None = None
    """The count of random numbers that each task draws on a CPU."""
    pools: Indices | None = None
    """The pooling kind of each task that is max pooling on a CPU; ``NONE`` for other tasks."""


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The parts of a graph that would be compiled.

    ``host`` are tasks of the script's threads. ``entries`` are the first tasks of the stretches that would
    each be one compiled graph, ``heads`` the entries of forward passes. ``groups`` are the tasks that become
    one kernel each, ``fused`` all tasks in them, and ``views`` the tasks that only return another view of the
    same memory. ``operators`` is the number of compiled operators in an iteration.
    """

    host: Indices
    entries: Indices
    heads: Indices
    groups: tuple[Group, ...]
    fused: Indices
    views: Indices
    operators: float
    breaks: float
    """Number of graph breaks in an iteration: at numbers that are read, and at operators that are not compiled."""
    kernels: int
    """Number of different kernels to generate: groups with the same calls share one."""
    bytes_per_us: float | None
    """The rate that the plain calls in the groups reached."""


@lru_cache(maxsize=2)
def regions(subject: Subject, graph: Graph, checkpointed: tuple[str, ...] = ()) -> Regions:
    """The compiled parts of a graph, in forward and backward passes of the trained model, and their groups.

    ``checkpointed`` are blocks that are checkpointed besides those of the script.
    """
    inside = _inside(subject, graph)
    tasks = graph.tasks
    on_gpu = ON_GPU[tasks.kind]
    host = np.flatnonzero(inside & np.isin(tasks.kind, _HOST))
    host = np.setdiff1d(host, subject.step_marks(graph))
    kernels = np.flatnonzero(inside & (tasks.kind == KIND[TaskKind.KERNEL]))
    kinds = _classes(graph, on_gpu)
    kinds[read_by_mask(subject, graph)] = CostClass.READ
    breaks = np.isin(kinds, _BREAKS)
    alone = inside & left_alone(subject, graph, inside & (kinds == CostClass.READ))
    alone |= written_by_mask(subject, graph, inside, breaks)
    alone |= inside & checkpointed_alone(subject, graph, alone | breaks, checkpointed)
    kinds[inside & _with_engine(graph, alone)] = CostClass.FOREIGN
    entries, heads, ends = _entries(graph, host, kinds)
    host = host[kinds[host] != CostClass.FOREIGN]
    computing = kernels if len(kernels) else host
    groups = _groups(subject, graph, computing, kinds, inside)
    views = host[(kinds[host] == CostClass.VIEW) & (tasks.kind[host] == KIND[TaskKind.CPU])]
    steps = max(1, subject.steps)
    counted = host[(graph.durations[host] > 0) & (kinds[host] != CostClass.OUTSIDE)]
    return Regions(
        host,
        entries,
        heads,
        groups,
        np.concatenate([group.tasks for group in groups]) if groups else np.empty(0, np.int64),
        views if not len(kernels) else np.empty(0, np.int64),
        len(counted) / steps,
        ends / steps,
        len({group.calls or (len(group.tasks),) for group in groups}),
        _rate(subject, graph, groups),
    )


def fused(
    graph: Graph,
    found: Regions,
    case: FusionBound,
    *,
    larger: float = 1.0,
    threads: int = 1,
    checkpointed: Flags | None = None,
    channels_last: bool = False,
) -> tuple[Times, Times]:
    """The durations and gaps with each group as one task, its first one; the other tasks take no time.

    ``larger`` is the ratio of the batch to the recorded one, ``threads`` the number of CPU threads.
    ``checkpointed`` flags the tasks of blocks that are also checkpointed. With ``channels_last``, images have
    that layout.
    """
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    again = _again(graph, checkpointed)
    per_ns = larger / 1e3 * gained(_DIVIDED_PART, threads)
    each_us, plain_us = per_ns * case.drawing_ns, per_ns * case.plain_ns
    on_gpu: Flags = ON_GPU[graph.tasks.kind]
    for group in found.groups:
        times = graph.durations[group.tasks]
        pools = group.pools if group.pools is not None and group.pools.any() else None
        if group.drawn is None and pools is None and checkpointed is None:
            then = _joined_us(times, group, found.bytes_per_us, case, plain_us)
        else:
            numbers = drawn(graph, group, larger)
            apart_us = numbers * each_us
            if checkpointed is not None:
                apart_us = np.where(checkpointed[group.tasks] & (numbers > 0), _ONLY_DRAWN * times, apart_us)
            if pools is not None:
                backward = int(graph.tasks.phase[group.tasks[0]]) == PHASE[Phase.BACKWARD]
                factors = case.pooling.of(pools, backward=backward, channels_last=channels_last)
                apart_us = np.where(pools != PoolingKind.NONE, factors * times, apart_us)
            then = _group_us(times, group, found.bytes_per_us, case, plain_us, apart_us, again[group.tasks])
        durations[group.tasks] = 0.0
        durations[group.tasks[0]] = then
        rest = group.tasks[1:]
        gaps[rest[on_gpu[rest]]] = 0.0
    durations[found.views] *= case.views
    if not on_gpu.any():
        work = graph.tasks.work[found.host]
        durations[found.host[work == WORK[WorkClass.MATMUL]]] *= case.products
        durations[found.host[work == WORK[WorkClass.CONVOLUTION]]] *= case.convolutions
    return durations, gaps


def drawn(graph: Graph, group: Group, larger: float) -> Times:
    """The count of random numbers that each task of a group draws on a CPU in the recorded batch; 0 in evaluation."""
    if group.drawn is None:
        return np.zeros(len(group.tasks))
    drew = graph.durations[group.tasks] * 1e3 >= _DRAWS_FROM_NS * larger * group.drawn
    return np.where(drew, group.drawn, 0.0)


def _again(graph: Graph, checkpointed: Flags | None) -> Flags:
    """Flags of the forward work that is repeated in the backward pass."""
    if checkpointed is None:
        return np.zeros(len(graph), np.bool_)
    tasks = graph.tasks
    forward = tasks.named(lambda name: is_operator(name) and "backward" not in name)
    return checkpointed & forward & (tasks.phase == PHASE[Phase.BACKWARD])


def _group_us(
    times: Times,
    group: Group,
    rate: float | None,
    case: FusionBound,
    plain_us: float,
    apart_us: Times,
    again: Flags,
) -> float:
    """The time of the fused kernel in µs; ``apart_us`` replaces the present time of drawing and pooling operators."""
    apart = apart_us > 0
    if apart.any():
        others = np.where(apart, 0.0, times)
        none = np.zeros(len(times))
        return float(apart_us.sum()) + _group_us(others, group, rate, case, plain_us, none, again)
    now = float(times.sum())
    repeated = float(times[again].sum()) / now if now > 0 else 0.0
    return _joined_us(times, group, rate, case, plain_us) * (1 - repeated * (1 - case.recomputed))


def _joined_us(times: Times, group: Group, rate: float | None, case: FusionBound, plain_us: float) -> float:
    """The time in µs of the fused kernel for operators that neither draw nor pool, and are not repeated.

    ``plain_us`` is the time of each number of a plain operator.
    """
    now = float(times.sum())
    factors = np.where(group.composite, case.composite, case.arithmetic)
    plain = group.plain
    if group.alone_bytes is None or (rate is None and plain is None):
        # Without shapes or a rate, the group is at least as long as its longest member, which moves the most.
        likely = max(1.0, case.traffic) * float(times.max(initial=0.0)) if len(times) > 1 else now
    elif plain is not None and len(times) == 1 and plain[0] > 0:
        likely = now
    elif rate is None:
        likely = float((factors * times).sum())
    else:
        beyond = factors * np.maximum(0.0, times - group.alone_bytes / rate)
        beside = beyond if plain is None else np.where(plain > 0, plain_us * plain, beyond)
        likely = case.traffic * group.external_bytes / rate + float(beside.sum())
    return min(max(likely, case.at_least * now), case.at_most * now)


def _plain_numbers(call: OperatorShape) -> float:
    return float(most_numbers(call)) if is_plain(call) else 0.0


def _numbers_drawn(call: OperatorShape) -> float:
    return float(most_numbers(call)) if call.operator.startswith(_DRAWS) else 0.0


def _rate(subject: Subject, graph: Graph, groups: Sequence[Group]) -> float | None:
    """The bytes per µs of the plain calls in the groups; at most the data sheet value of a known GPU."""
    calls = [
        (call, float(took))
        for group in groups
        for call, took in zip(group.calls, graph.durations[group.tasks].tolist(), strict=False)
    ]
    rate, spec = bandwidth(calls), gpu(subject)
    return rate if rate is None or spec is None else min(rate, spec.bandwidth_gb_s * 1e3)


def _inside(subject: Subject, graph: Graph) -> Flags:
    """Flags of the tasks that belong to a pass over the model; a trace without modules shows only the passes."""
    tasks, names = graph.tasks, graph.structure.modules
    passes = np.isin(tasks.phase, _PASSES)
    profile = subject.profile
    roots = {fact.path.partition(".")[0] for fact in profile.modules} if profile is not None else set[str]()
    if roots:
        known = np.array([name.partition(".")[0] in roots for name in names] + [False])
    else:
        known = np.ones(len(names) + 1, np.bool_)
        if profile is not None and names:
            known[-1] = False
    return _with_engine(graph, passes & known[np.where(tasks.module < len(names), tasks.module, -1)])


def _with_engine(graph: Graph, inside: Flags) -> Flags:
    """The flags extended to the time between two flagged backward nodes: compiled, they are one node of the engine."""
    tasks, members = graph.tasks, graph.structure.lane_members
    between = ~inside & (graph.durations <= 0) & (tasks.phase == PHASE[Phase.BACKWARD])
    between &= (tasks.kind == KIND[TaskKind.CPU]) & (tasks.module < 0)
    between, places = between[members], np.arange(len(members))
    before = np.maximum.accumulate(np.where(between, -1, places))
    after = np.minimum.accumulate(np.where(between, len(members), places)[::-1])[::-1]
    found = np.flatnonzero(between & (before >= 0) & (after < len(members)))
    here, *beside = members[found], members[before[found]], members[after[found]]
    joined = np.ones(len(found), np.bool_)
    for other in beside:
        joined &= inside[other]
        for column in (tasks.lane, tasks.iteration, tasks.phase):
            joined &= column[other] == column[here]
    inside = inside.copy()
    inside[here[joined]] = True
    return inside


def _classes(graph: Graph, on_gpu: Flags) -> Indices:
    names, tasks = graph.tasks.names, graph.tasks
    of_host = np.array([operator_class(name) for name in names], np.int64)
    of_kernels = np.array([kernel_class(name) for name in names], np.int64)
    return np.where(on_gpu, of_kernels[tasks.name], of_host[tasks.name])


def _entries(graph: Graph, host: Indices, kinds: Indices) -> tuple[Indices, Indices, int]:
    """The first task of each stretch of a pass on a lane, those of forward passes, and the number of breaks.

    A number that is read begins another stretch, and so do operators that are not compiled; neighbouring ones
    make one break.
    """
    tasks = graph.tasks
    ordered = host[np.lexsort((host, tasks.lane[host]))]
    if not len(ordered):
        return ordered, ordered, 0
    changes = np.ones(len(ordered), np.bool_)
    earlier, later = ordered[:-1], ordered[1:]
    changes[1:] = (
        (tasks.lane[later] != tasks.lane[earlier])
        | (tasks.iteration[later] != tasks.iteration[earlier])
        | (tasks.phase[later] != tasks.phase[earlier])
    )
    read, foreign = kinds[ordered] == CostClass.READ, kinds[ordered] == CostClass.FOREIGN
    begins = changes.copy()
    begins[1:] |= read[:-1] | foreign[:-1]
    # A stretch that opens with foreign operators begins after them.
    entries = ordered[begins & ~foreign]
    goes_on = ~changes
    goes_on[1:] &= foreign[:-1]
    breaks = int(read.sum()) + int((foreign & ~goes_on).sum())
    return entries, entries[tasks.phase[entries] == PHASE[Phase.FORWARD]], breaks


def _groups(
    subject: Subject, graph: Graph, computing: Indices, kinds: Indices, inside: Flags
) -> tuple[Group, ...]:
    tasks = graph.tasks
    members = graph.structure.lane_members
    kind = kinds[members]
    pointwise = np.zeros(len(graph), np.bool_)
    pointwise[computing] = kinds[computing] == CostClass.POINTWISE
    # Computing work that is not fused separates its neighbours; views and similar operators do not.
    computes = ON_GPU[tasks.kind[members]] == ON_GPU[tasks.kind[computing[0]]] if len(computing) else inside
    leaves = (kind != CostClass.VIEW) & ~inside[members]
    own = np.isin(kind, (CostClass.HEAVY, CostClass.KEPT, *_BREAKS))
    parts = computes & (own | leaves) & ~pointwise[members]
    changes = np.ones(len(members), np.bool_)
    for column in (tasks.lane, tasks.iteration, tasks.phase):
        changes[1:] &= column[members][1:] == column[members][:-1]
    changes = ~changes
    changes[:1] = True
    stretch = np.cumsum(parts | changes)
    chosen = pointwise[members]
    found, number = members[chosen].astype(np.int64), stretch[chosen]
    if not len(found):
        return ()
    on_gpu = bool(ON_GPU[tasks.kind[found]].any())
    if not on_gpu:
        number = joined(subject, graph, computing, kinds, found, number)
    called: Sequence[OperatorShape | None] = shapes(subject, graph, found)
    bounds = np.flatnonzero(np.diff(number)) + 1
    imaging = not on_gpu and bool((tasks.work[inside] == WORK[WorkClass.CONVOLUTION]).any())
    marks = tuple(mark for mark in _COMPOSITE if not imaging or mark not in _QUICKER_CHANNELS_LAST)
    composite = tasks.named(lambda name: any(part in name.lower() for part in marks))[found]
    groups: list[Group] = []
    for begin, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(found)], strict=True):
        members_of, calls = found[begin:end], [one for one in called[begin:end] if one is not None]
        operators: list[str] = [tasks.names[name] for name in tasks.name[members_of]]
        pools = None if on_gpu else pooling_kinds(operators, called[begin:end])
        if len(calls) < end - begin:
            groups.append(Group(members_of, (), composite[begin:end], pools=pools))
            continue
        alone = np.array([traffic(call).size_bytes for call in calls], np.float64)
        plain = None if on_gpu else np.array([_plain_numbers(call) for call in calls], np.float64)
        drawn = np.array([0.0 if on_gpu else _numbers_drawn(call) for call in calls], np.float64)
        groups.append(
            Group(
                members_of,
                tuple(calls),
                composite[begin:end],
                external_bytes(calls),
                alone,
                plain,
                drawn,
                pools,
            )
        )
    return tuple(groups)
