"""What if several workers trained the model together, each on a batch of its own."""

from __future__ import annotations

from dataclasses import replace

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Provenance, Scenario, Subject
from skyline.whatif.catalogue.parallel.all_reduce import DEFAULT_CAP_MB, Link, buckets_of, latency_us
from skyline.whatif.cost.worker_exchange import (
    LINKS,
    REACHED,
    BetweenWorkers,
    Workers,
    after_backward,
    gradients_of,
    link_task,
)
from skyline.whatif.memory import Memory


@dataclass(frozen=True, slots=True)
class DataParallel(BetweenWorkers):
    """Adds the all-reduce of each bucket of gradients as soon as the bucket is ready, as DistributedDataParallel does.

    Daydream (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020), section 5.1. Each worker keeps the batch size.
    """

    name: str = "data_parallel"
    excludes: tuple[str, ...] = ("p3",)

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"DistributedDataParallel with {value.partition('@')[0] or 'several'} workers"

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Exchange the gradients of each iteration before its update."""
        workers = Workers.parse(self.name, value)
        cases = (
            _exchanged(subject, scenario.graph, workers, share)
            for share in (REACHED.value, REACHED.high, REACHED.low)
        )
        total = sum(
            one.size_bytes for one in gradients_of(subject, scenario.graph, scenario.graph.iterations[0])
        )
        changed = scenario.between(
            subject,
            *cases,
            assumptions=(
                workers.assumption(),
                (
                    f"buckets of {DEFAULT_CAP_MB:g} MB, exchanged over a ring of all workers; the exchange "
                    "slows down no other work"
                ),
                "all gradients are float32, and every worker loads its own data as fast as the script does",
            ),
            memory=lambda memory: _with_buckets(memory, total),
            provenance=Provenance.ASSUMED,
        )
        return replace(changed, samples_factor=changed.samples_factor * workers.count)


def _with_buckets(memory: Memory, gradient_bytes: float) -> Memory:
    return memory.more("other", Interval.exact(gradient_bytes))


def _exchanged(subject: Subject, graph: Graph, workers: Workers, reached: float) -> Graph:
    link = Link(
        workers.count, latency_us("nccl" if subject.on_gpu else "gloo"), workers.bytes_per_us(reached)
    )
    return with_all_reduces(subject, graph, link, DEFAULT_CAP_MB, LINKS)


def with_all_reduces(subject: Subject, graph: Graph, link: Link, cap_mb: float, lane: str) -> Graph:
    """The graph with an all-reduce for each bucket of gradients up to ``cap_mb``, on a lane of their own.

    A bucket is sent when the last task of its last gradient has run; the update waits for the last bucket.
    """
    insertions: list[Insertion] = []
    waits: list[Dependency] = []
    for iteration in graph.iterations:
        gradients = gradients_of(subject, graph, iteration)
        waiting = after_backward(subject, graph, iteration)
        for first, end in buckets_of([one.size_bytes for one in gradients], cap_mb):
            size = sum(one.size_bytes for one in gradients[first : end + 1])
            place, ready = len(graph) + len(insertions), gradients[end].ready
            task = link_task(subject, f"all-reduce {size / 1e6:.1f} MB", lane, iteration)
            insertions.append(Insertion(task, link.all_reduce_us(size), ready))
            waits.append(Dependency(ready, place, Cause.HAND_OFF))
            if waiting is not None:
                waits.append(Dependency(place, waiting, Cause.COLLECTIVE))
    return insert(graph, insertions, waits)


WHATIF = DataParallel()
