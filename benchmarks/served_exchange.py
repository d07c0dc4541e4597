"""An exchange of gradients over parameter servers that need time for memory: push, sum and update, reply.

The what-if ``p3`` assumes servers as fast as the link. Here one of several equal machines is modelled as a link and a
server. It pushes the shares of the other servers. Its server adds its own share over all workers, updates it, and
replies to the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.scheduling import prioritise
from skyline.whatif.cost.worker_exchange import Workers, after_backward, gradients_of, link_task
from skyline.whatif.subject import Subject

LINK, SERVER = "links between workers", "parameter server"
UPDATE_ACCESSES = 5
"""Memory accesses per number: SGD with momentum reads weight, gradient and momentum, and writes two of them."""


@dataclass(frozen=True, slots=True)
class Server:
    """The memory of a server, with its speed in bytes per µs."""

    bytes_per_us: float

    def took_us(self, size_bytes: float, workers: int) -> float:
        """The time for one server's share of a gradient.

        As in MXNet's ``kvstore_dist_server.h``, the first worker's numbers are copied, the others are added, and each
        reply is a copy. A copy accesses memory twice per number, an addition three times.
        """
        accesses = 2 + 3 * (workers - 1) + UPDATE_ACCESSES + 2 * workers
        return accesses * size_bytes / workers / self.bytes_per_us


def served(
    subject: Subject, graph: Graph, workers: Workers, reached: float, server: Server, slice_bytes: float = inf
) -> Graph:
    """The graph of several iterations with their exchange. Slices are sent by priority of their next use."""
    rate = workers.bytes_per_us(reached)
    insertions: list[Insertion] = []
    waits: list[Dependency] = []
    priorities: list[float] = []
    iterations = graph.iterations
    for number, iteration in enumerate(iterations):
        gradients = gradients_of(subject, graph, iteration)
        last = number + 1 == len(iterations)
        later = () if last else gradients_of(subject, graph, iterations[number + 1])
        used = {one.module: one.used for one in later}
        behind = after_backward(subject, graph, iteration) if last else None
        for gradient in gradients:
            count = 1 if slice_bytes == inf else max(1, ceil(gradient.size_bytes / slice_bytes))
            size = gradient.size_bytes / count
            passed_us = size * (workers.count - 1) / workers.count / rate
            target = used.get(gradient.module, behind)
            for _ in range(count):
                first = len(graph) + len(insertions)
                for name, lane, took_us in (
                    ("push", LINK, passed_us),
                    ("sum", SERVER, server.took_us(size, workers.count)),
                    ("reply", LINK, passed_us),
                ):
                    insertions.append(
                        Insertion(link_task(subject, name, lane, iteration), took_us, gradient.ready)
                    )
                    priorities.append(0.0 if slice_bytes == inf else -float(gradient.used))
                waits.append(Dependency(gradient.ready, first, Cause.HAND_OFF))
                waits.append(Dependency(first, first + 1, Cause.HAND_OFF))
                waits.append(Dependency(first + 1, first + 2, Cause.HAND_OFF))
                if target is not None:
                    waits.append(Dependency(first + 2, target, Cause.COLLECTIVE))
    made = insert(graph, insertions, waits)
    lane = made.tasks.lane
    codes = [made.tasks.lane_code(name) for name in (LINK, SERVER)]
    chosen = ((lane == codes[0]) | (lane == codes[1])).nonzero()[0].tolist()
    return prioritise(made, chosen, priorities)
