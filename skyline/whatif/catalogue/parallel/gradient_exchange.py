"""Adds the exchange of gradients to a graph: a profile records only the time that the script waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.selection import select
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ParallelFact
from skyline.trace.record import Phase
from skyline.whatif.catalogue.parallel.all_reduce import (
    DEFAULT_CAP_MB,
    Link,
    buckets_of,
    fitted,
    latency_us,
    stolen_us,
    waiting_us,
)
from skyline.whatif.subject import Subject, shapes

LANE = "gradient exchange"
ALL_REDUCE = "all-reduce"
COPY_BACK = "copy_bucket_to_grad"
_WAIT = "wait for gradients"
_ARRIVAL = "AccumulateGrad"
_NARROW = ("float16", "bfloat16")
_NEAR = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The gradients of one iteration as they arrive, and the work after them on the script's thread until the step.

    ``tail`` begins with the last gradient. ``ready_us`` is relative to the end of the first gradient.
    """

    iteration: int
    tasks: Indices
    sizes: tuple[float, ...]
    ready_us: tuple[float, ...]
    tail: Indices
    waited_us: float


def joined_by(baseline: Subject) -> ParallelFact | None:
    """The facts of the replicas' exchange, if it is ``DistributedDataParallel`` with several ranks; else None."""
    fact = baseline.script.parallel
    replicated = fact is not None and fact.name == "DistributedDataParallel" and fact.world_size > 1
    return fact if replicated else None


def exchange_of(baseline: Subject) -> ParallelFact | str:
    """The facts of a profile's gradient exchange, or the reason why nothing is known about it."""
    fact = baseline.script.parallel
    if fact is None:
        return "the script does not use DistributedDataParallel; to profile several ranks: --ranks 2"
    if fact.name != "DistributedDataParallel":
        return f"{fact.name} shards the model; only DistributedDataParallel is supported here"
    if fact.world_size < 2:
        return "a single rank exchanges nothing; to profile several ranks: --ranks 2"
    if baseline.script.prediction is not None:
        return "a predicted profile does not contain the exchange of gradients"
    if not baseline.on_gpu and not next(arrivals(baseline, baseline.operators), None):
        return "the recording does not show where gradients arrive"
    return fact


def cores_are_shared(baseline: Subject) -> bool:
    """True if the computing threads of all ranks, on this machine, leave no core to the exchanging threads."""
    fact, machine = baseline.script.parallel, baseline.script.environment
    ranks = 1 if fact is None else fact.world_size
    return not baseline.on_gpu and machine.cpu_count < ranks * (machine.intraop_threads + 1)


def arrivals(baseline: Subject, graph: Graph) -> Iterator[Arrivals]:
    """The arrivals of each iteration in which the arrival of all exchanged gradients was recorded."""
    fact = joined_by(baseline)
    if fact is None:
        return
    backward = select(graph, phase=Phase.BACKWARD, lane=baseline.lane)
    named = select(graph, phase=Phase.BACKWARD, lane=baseline.lane, name=_ARRIVAL)
    called = shapes(baseline, graph, named)
    size_of = {
        int(task): prod(shape.inputs[0]) * (2 if shape.dtypes[:1] and shape.dtypes[0] in _NARROW else 4)
        for task, shape in zip(named, called, strict=True)
        if shape is not None and shape.inputs
    }
    took = graph.durations + graph.gaps
    for iteration in graph.iterations:
        tasks = [task for task in size_of if graph.tasks.iteration[task] == iteration]
        # Only the gradients of the last micro-batch are exchanged.
        kept = _last_of(tasks, size_of, fact.gradient_bytes, unused=bool(fact.find_unused_parameters))
        if not kept:
            continue
        here = backward[(graph.tasks.iteration[backward] == iteration) & (backward >= kept[0])]
        clock = np.cumsum(took[here]) - graph.gaps[here]
        at = dict(zip(here.tolist(), clock.tolist(), strict=True))
        tail = here[here >= kept[-1]]
        begin = at[kept[0]]
        yield Arrivals(
            iteration,
            np.array(kept, np.int64),
            tuple(float(size_of[task]) for task in kept),
            tuple(at[task] - begin for task in kept),
            tail,
            float(graph.gaps[tail].sum()),
        )


def _last_of(tasks: list[int], size_of: dict[int, int], wanted_bytes: int, *, unused: bool) -> list[int]:
    """The last tasks whose gradients have the wanted size; all tasks if too few, because parameters went unused."""
    if unused and sum(size_of[task] for task in tasks) < wanted_bytes:
        return tasks
    held, kept = 0, list[int]()
    for task in reversed(tasks):
        if held >= wanted_bytes * (1 - _NEAR):
            break
        held += size_of[task]
        kept.append(task)
    return kept[::-1] if abs(held - wanted_bytes) <= _NEAR * wanted_bytes else []


def exposed_us(baseline: Subject, caps_mb: Sequence[float]) -> list[float]:
    """The cost of the exchange for the script per iteration, for buckets up to each of these sizes, in µs."""
    fact = joined_by(baseline)
    arrived = next(arrivals(baseline, baseline.operators), None)
    if fact is None or arrived is None:
        return [0.0] * len(caps_mb)
    shared = cores_are_shared(baseline)
    link = link_of(arrived, fact, shared=shared)
    found: list[float] = []
    for cap in caps_mb:
        ready, sizes = _buckets(arrived, cap)
        if shared:
            found.append(sum(link.all_reduce_us(size) for size in sizes))
        else:
            found.append(waiting_us(link, ready, sizes, shared=False))
    return found


def changes_buckets(baseline: Subject, cap_mb: float) -> bool:
    """True if gradients would be sent in other buckets than now."""
    fact = joined_by(baseline)
    now = DEFAULT_CAP_MB if fact is None else fact.bucket_cap_mb or DEFAULT_CAP_MB
    return any(
        buckets_of(arrived.sizes, cap_mb) != buckets_of(arrived.sizes, now)
        for arrived in arrivals(baseline, baseline.operators)
    )


def link_of(arrived: Arrivals, fact: ParallelFact, *, shared: bool, slower: float = 1.0) -> Link:
    """The link that reproduces the script's wait with its buckets; ``slower`` multiplies the usual latency."""
    ready, sizes = _buckets(arrived, fact.bucket_cap_mb or DEFAULT_CAP_MB)
    return fitted(
        fact.world_size,
        slower * latency_us(fact.backend),
        arrived.waited_us,
        lambda link: waiting_us(link, ready, sizes, shared=shared),
    )


def with_exchange(
    baseline: Subject, graph: Graph, cap_mb: float | None = None, *, shared: bool, slower: float = 1.0
) -> Graph:
    """The graph with a task for each bucket's all-reduce, for buckets up to ``cap_mb`` (None: as they are).

    With unchanged buckets, the time of the graph stays the same. With ``shared``, an all-reduce occupies the
    script's core while it lasts; otherwise it runs on its own lane, and the script waits for the last one.
    """
    fact = joined_by(baseline)
    if fact is None or len(select(graph, name=ALL_REDUCE)):
        return graph
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    insertions: list[Insertion] = []
    dependencies: list[Dependency] = []
    for arrived in arrivals(baseline, graph):
        link = link_of(arrived, fact, shared=shared, slower=slower)
        old_ready, old_sizes = _buckets(arrived, fact.bucket_cap_mb or DEFAULT_CAP_MB)
        explained_us = waiting_us(link, old_ready, old_sizes, shared=shared)
        # Time that no plausible link explains is a wait for a late rank, and stays.
        late_us = max(0.0, arrived.waited_us - explained_us)
        gaps[arrived.tail] *= late_us / arrived.waited_us if shared and arrived.waited_us > 0 else 0.0
        if shared:
            on_lane = graph.tasks.lane == graph.tasks.lane_code(baseline.lane)
            on_lane[: int(arrived.tasks[0]) + 1] = False
            on_lane[int(arrived.tasks[-1]) + 1 :] = False
            between = np.flatnonzero(on_lane)
            busy_us = float(durations[between].sum())
            if busy_us > 0:
                own = stolen_us(link, old_ready, old_sizes) / busy_us
                durations[between] *= max(0.0, 1 - own)
        cap = cap_mb if cap_mb is not None else fact.bucket_cap_mb or DEFAULT_CAP_MB
        last = -1
        for first, end in buckets_of(arrived.sizes, cap):
            size = sum(arrived.sizes[first : end + 1])
            task = _task(baseline, arrived, f"{ALL_REDUCE} {size / 1e6:.1f} MB", shared=shared)
            ready = int(arrived.tasks[end])
            last = len(graph) + len(insertions)
            insertions.append(Insertion(task, link.all_reduce_us(size), ready))
            if not shared:
                dependencies.append(Dependency(ready, last, Cause.HAND_OFF))
        if last >= 0 and not shared:
            waiting = _task(baseline, arrived, _WAIT, shared=True)
            dependencies.append(Dependency(last, len(graph) + len(insertions), Cause.COLLECTIVE))
            insertions.append(Insertion(waiting, late_us, int(arrived.tasks[-1])))
    if not insertions:
        return graph
    return insert(graph.with_times(durations=durations, gaps=gaps), insertions, dependencies)


def in_half(
    baseline: Subject,
    graph: Graph,
    *,
    shared: bool,
    casting_us_per_byte: float,
    summing_us_per_number: float,
) -> Graph:
    """The graph with exchanged gradients in 16 bits: half the data, and casts on the script's side.

    ``casting_us_per_byte`` is the time of both casts per byte of the present gradients;
    ``summing_us_per_number`` is the additional time to add a number in 16 bits instead of 32.
    """
    fact = joined_by(baseline)
    if fact is None:
        return graph
    exchanged = with_exchange(baseline, graph, shared=shared)
    chosen = select(exchanged, name=ALL_REDUCE)
    sizes = np.array([_size_bytes(exchanged.tasks[int(task)].name) for task in chosen])
    fixed = Link(fact.world_size, latency_us(fact.backend), 1.0).fixed_us
    own = np.maximum(0.0, exchanged.durations[chosen] - fixed)
    summing = sizes / 4 * (fact.world_size - 1) / fact.world_size * summing_us_per_number
    after = fixed + own / 2 + summing + sizes * casting_us_per_byte
    before = exchanged.durations[chosen]
    return scale(exchanged, chosen, np.divide(after, before, out=np.ones(len(chosen)), where=before > 0))


def _size_bytes(name: str) -> float:
    return float(name.split()[1]) * 1e6


def _buckets(arrived: Arrivals, cap_mb: float) -> tuple[list[float], list[float]]:
    """The time when each bucket is ready, in µs, and its size in bytes."""
    found = buckets_of(arrived.sizes, cap_mb)
    return [arrived.ready_us[end] for _, end in found], [
        sum(arrived.sizes[first : end + 1]) for first, end in found
    ]


def _task(baseline: Subject, arrived: Arrivals, name: str, *, shared: bool) -> Task:
    return Task(
        name,
        TaskKind.CPU,
        WorkClass.OTHER,
        baseline.lane if shared else LANE,
        Phase.COMMUNICATION,
        arrived.iteration,
    )
