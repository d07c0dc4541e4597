"""What if several workers exchanged their gradients in slices, first the slices of the first layers."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.replication import stitch
from skyline.graph.scheduling import prioritise
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Provenance, Scenario, Subject
from skyline.whatif.catalogue.parallel.all_reduce import latency_us
from skyline.whatif.constant import Constant
from skyline.whatif.cost.worker_exchange import (
    LINKS,
    REACHED,
    BetweenWorkers,
    Workers,
    after_backward,
    gradients_of,
    link_task,
)

_SLICE_BYTES = Constant.at(
    200_000.0, "50,000 parameters, the size of a slice in P3 (Jayarajan and others, MLSys 2019, section 5.7)"
)
_MOST_SLICES = Constant.at(
    400, "slices of an iteration at most: larger models have larger slices, for the simulation"
)
_ITERATIONS = Constant.at(
    12,
    "iterations that are simulated one after another: the last one's exchange ends with it, and counts in full",
)


@dataclass(frozen=True, slots=True)
class P3(BetweenWorkers):
    """Sends slices of gradients to parameter servers and the sums back, by priority of their next use.

    Priority-based parameter propagation (Jayarajan, Wei, Gibson, Fedorova, Pekhimenko, MLSys 2019): each
    module in the next iteration's forward pass waits only for its own parameters. Each worker is also the
    server of its share.
    """

    name: str = "p3"
    excludes: tuple[str, ...] = ("data_parallel",)

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"{value.partition('@')[0] or 'several'} workers that exchange slices of gradients by priority"

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Exchange slices while the backward pass and the next forward pass compute."""
        workers = Workers.parse(self.name, value)
        graph = stitch(scenario.graph, int(_ITERATIONS.value))
        cases = (
            sliced(subject, graph, workers, share) for share in (REACHED.value, REACHED.high, REACHED.low)
        )
        changed = scenario.between(
            subject,
            *cases,
            assumptions=(
                workers.assumption(),
                "the servers add up gradients and update parameters as fast as the link delivers them",
                "all gradients are float32, and every worker loads its own data as fast as the script does",
            ),
            provenance=Provenance.ASSUMED,
        )
        return replace(changed, samples_factor=changed.samples_factor * workers.count)


def sliced(
    subject: Subject,
    graph: Graph,
    workers: Workers,
    reached: float,
    *,
    slice_bytes: float = _SLICE_BYTES.value,
    by_priority: bool = True,
) -> Graph:
    """The graph with the exchange of its iterations; ``graph`` has several, and each waits for the one before.

    Without priorities, slices are sent in the order in which they are ready.
    """
    rate, latency = workers.bytes_per_us(reached), latency_us("nccl" if subject.on_gpu else "gloo")
    share = (workers.count - 1) / workers.count
    insertions: list[Insertion] = []
    waits: list[Dependency] = []
    priorities: list[float] = []
    iterations = graph.iterations
    for number, iteration in enumerate(iterations):
        gradients = gradients_of(subject, graph, iteration)
        following = iterations[number + 1] if number + 1 < len(iterations) else None
        later = () if following is None else gradients_of(subject, graph, following)
        used = {one.module: one.used for one in later}
        # The last iteration has no next one that could wait.
        behind = after_backward(subject, graph, iteration) if following is None else None
        total = sum(one.size_bytes for one in gradients)
        size = max(slice_bytes, total / _MOST_SLICES.value)
        for gradient in gradients:
            count = max(1, ceil(gradient.size_bytes / size))
            # A worker keeps the share that it serves itself. It sends the other shares, and as a server it
            # sends as much.
            took_us = 2 * gradient.size_bytes / count * share / rate
            target = used.get(gradient.module, behind)
            for _ in range(count):
                task = len(graph) + len(insertions)
                insertions.append(
                    Insertion(link_task(subject, "slice", LINKS, iteration), took_us, gradient.ready)
                )
                priorities.append(-float(gradient.used))
                waits.append(Dependency(gradient.ready, task, Cause.HAND_OFF))
                if target is not None:
                    waits.append(Dependency(task, target, Cause.COLLECTIVE, lag_us=2 * latency))
    made = insert(graph, insertions, waits)
    if not by_priority or not insertions:
        return made
    lane = made.tasks.lane_code(LINKS)
    return prioritise(made, (made.tasks.lane == lane).nonzero()[0].tolist(), priorities)


WHATIF = P3()
