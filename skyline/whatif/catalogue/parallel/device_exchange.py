"""Cuts the recorded exchange of gradients between GPUs into other buckets."""

from __future__ import annotations

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.removal import remove
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ParallelFact
from skyline.trace.record import Phase
from skyline.whatif.catalogue.parallel.all_reduce import DEFAULT_CAP_MB, Link, buckets_of, latency_us
from skyline.whatif.catalogue.parallel.data_parallel import with_all_reduces
from skyline.whatif.constant import Constant
from skyline.whatif.cost.worker_exchange import gradients_of
from skyline.whatif.subject import Subject

_LEAST_MOVING = Constant.at(
    0.1,
    "an assumption: the share of a recorded all-reduce that moves data at least; a shorter one gives no bandwidth",
)


@dataclass(frozen=True, slots=True)
class DeviceExchange:
    """The recorded all-reduces of one iteration: their lane, and the link that fits their times.

    ``fastest`` is the link of the bucket that moved the most data per µs: the others may have waited for late
    ranks.
    """

    lane: str
    link: Link
    fastest: Link


def recorded_exchange(subject: Subject, fact: ParallelFact) -> DeviceExchange | str:
    """The recorded exchange between GPUs, or the reason why it cannot be cut into other buckets."""
    graph = subject.operators
    iteration = graph.iterations[-1]
    found = all_reduces(graph, iteration)
    gradients = [one.size_bytes for one in gradients_of(subject, graph, iteration)]
    if not len(found) or not gradients:
        return "the all-reduces and the modules whose gradients they carry were not both recorded"
    buckets = buckets_of(gradients, fact.bucket_cap_mb or DEFAULT_CAP_MB)
    if len(buckets) != len(found):
        return f"{len(found)} all-reduces were recorded, and the gradients fill {len(buckets)} buckets"
    sizes = [sum(gradients[first : end + 1]) for first, end in buckets]
    message_us = latency_us(fact.backend)
    fixed_us = Link(fact.world_size, message_us, 1.0).fixed_us
    took = [float(one) for one in graph.durations[found]]
    moving = [max(one * _LEAST_MOVING.value, one - fixed_us) for one in took]
    passed = 2 * (fact.world_size - 1) / fact.world_size
    usual = passed * sum(sizes) / sum(moving)
    most = max(passed * size / us for size, us in zip(sizes, moving, strict=True))
    lane = graph.tasks[int(found[0])].lane
    link, fastest = (Link(fact.world_size, message_us, rate) for rate in (usual, most))
    return DeviceExchange(lane, link, fastest)


def all_reduces(graph: Graph, iteration: int) -> Indices:
    """The kernels of an iteration that add up gradients over the ranks."""
    found = select(graph, kind=TaskKind.KERNEL, phase=Phase.COMMUNICATION, iteration=iteration)
    return found[[("allreduce" in graph.tasks[int(one)].name.lower()) for one in found]]


def changes_device_buckets(subject: Subject, graph: Graph, now_mb: float, cap_mb: float) -> bool:
    """True if gradients would be sent in other buckets than now."""
    sizes = [one.size_bytes for one in gradients_of(subject, graph, graph.iterations[-1])]
    return buckets_of(sizes, cap_mb) != buckets_of(sizes, now_mb)


def with_device_buckets(
    subject: Subject, graph: Graph, exchange: DeviceExchange, cap_mb: float, link: Link
) -> Graph:
    """The graph with its all-reduces replaced by all-reduces of buckets up to ``cap_mb`` over a link."""
    recorded = [task for iteration in graph.iterations for task in all_reduces(graph, iteration)]
    return with_all_reduces(subject, remove(graph, recorded), link, cap_mb, exchange.lane)
