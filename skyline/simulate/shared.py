"""When tasks of different lanes slow one another down: CPU cores, copy engines and links that they share.

Work is a fluid: as long as the tasks that run at a moment ask for more of a resource than there is, all of them
progress at the same, lower rate. Between two moments at which a task starts or ends nothing changes, so the
simulation goes from one such moment to the next.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from skyline.compiled import loop
from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph
from skyline.graph.order import CyclicGraph
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND
from skyline.simulate.leaving import leaving
from skyline.simulate.timeline import Timeline

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Resource:
    """Something of which there is ``capacity``, and what each of ``tasks`` asks of it while it runs alone.

    While the running tasks ask for more than there is, each takes longer by the same factor. With ``in_gaps``
    the time after a task asks for as much as the task: a thread computes there too, only untraced.
    """

    name: str
    capacity: float
    tasks: npt.ArrayLike
    demand: npt.ArrayLike = 1.0
    in_gaps: bool = False


def cpu_cores(graph: Graph, cores: float, demand: npt.ArrayLike = 1.0) -> Resource:
    """The cores on which all CPU lanes of a graph run, their gaps included.

    ``demand`` is how many cores each task keeps busy, one number or one per task of the graph: more than one for
    an operator with threads of its own, 0 for a call that sleeps.
    """
    kind = graph.tasks.kind
    on_gpu = (kind == KIND[TaskKind.KERNEL]) | (kind == KIND[TaskKind.COPY])
    tasks = np.flatnonzero(~on_gpu)
    asked = np.broadcast_to(np.asarray(demand, np.float64), len(graph))[tasks]
    return Resource("CPU cores", cores, tasks, asked, in_gaps=True)


def simulate_shared(graph: Graph, resources: Sequence[Resource]) -> Timeline:
    """As ``simulate``, with tasks that share resources and slow one another down where these don't suffice.

    Where they do suffice, the answer is that of ``simulate``. A task may ask for one resource. A dependency
    with a negative lag counts from the moment at which it is known to hold.

    Raises:
        ValueError: a resource of no capacity, a negative demand, a task of two resources or a lane without order.
        CyclicGraph: a task waits for itself.
    """
    if graph.priorities is not None:
        raise ValueError("resources are shared by lanes that keep their order: this graph has priorities")
    structure = graph.structure
    count, unlimited = len(graph), len(resources)
    resource_of = np.full(count, unlimited, np.int32)
    resource_of_gap = np.full(count, unlimited, np.int32)
    demand = np.zeros(count)
    for number, resource in enumerate(resources):
        _take(resource, number, resource_of, resource_of_gap, demand)
    edges = leaving(structure, keeps_order=np.zeros(len(structure.lanes), np.bool_))
    starts, ends, freed = np.zeros(count), np.zeros(count), np.zeros(count)
    done = _flow(
        6 * count + len(edges.target),
        structure.after,
        edges.offsets,
        edges.target,
        edges.lag,
        edges.from_start,
        graph.durations,
        graph.gaps,
        resource_of,
        resource_of_gap,
        demand,
        np.array([*(resource.capacity for resource in resources), np.inf]),
        (edges.waiting + (structure.before >= 0)).astype(np.int32),
        np.zeros(count),
        starts,
        ends,
        freed,
    )
    if done < count:
        raise CyclicGraph("a task waits for itself")
    return Timeline(graph, starts, ends, freed_otherwise=freed)


def _take(resource: Resource, number: int, of_task: Ids, of_gap: Ids, demand: Times) -> None:
    tasks = np.asarray(resource.tasks, np.int32)
    asked = np.broadcast_to(np.asarray(resource.demand, np.float64), tasks.shape)
    if resource.capacity <= 0 or bool((asked < 0).any()):
        raise ValueError(f"{resource.name}: capacity and demand are positive")
    needed = asked > 0
    tasks, asked = tasks[needed], asked[needed]
    if bool((demand[tasks] > 0).any()):
        raise ValueError(f"{resource.name}: some of its tasks share another resource already")
    of_task[tasks] = number
    demand[tasks] = asked
    if resource.in_gaps:
        of_gap[tasks] = number


@loop("iiifbffiiff", writes="iffff")
def _flow(
    after: Sequence[int],
    offsets: Sequence[int],
    targets: Sequence[int],
    lags: Sequence[float],
    from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    resource_of: Sequence[int],
    resource_of_gap: Sequence[int],
    demand: Sequence[float],
    capacities: Sequence[float],
    waiting: MutableSequence[int],
    ready: MutableSequence[float],
    starts: MutableSequence[float],
    ends: MutableSequence[float],
    freed: MutableSequence[float],
) -> int:
    """Gives how many tasks were run.

    All work on a resource progresses at one rate. So each resource has a clock of its own, that shows how much
    work whoever ran all the time has done; ``work[r]`` is what it showed at ``since[r]``, when its rate last
    changed. A task that starts will be done when that clock has moved on by its duration, whatever the rate does
    in between: ``running`` keeps, for each resource, what runs by the reading at which it is done. An item
    ``2 * task`` is a task and ``2 * task + 1`` its gap. ``due`` are tasks that wait for time alone.
    """
    running = [[(0.0, 0)] for _ in range(len(capacities))]
    rate = [1.0 for _ in range(len(capacities))]
    work = [0.0 for _ in range(len(capacities))]
    since = [0.0 for _ in range(len(capacities))]
    asked = [0.0 for _ in range(len(capacities))]
    for heap in running:
        heap.pop()
    due = [(0.0, 0)]
    due.pop()
    for index in range(len(durations)):
        if waiting[index] == 0:
            heappush(due, (0.0, index))
    now = 0.0
    done = 0
    while True:
        # What happens next, and at which resource: -1 for a start.
        where = -2
        moment = 0.0
        if len(due) > 0:
            where = -1
            moment = max(now, due[0][0])
        for place in range(len(capacities)):
            if len(running[place]) > 0:
                # At full rate from the beginning this is the reading itself, to the last bit.
                left = running[place][0][0] - work[place]
                over = since[place] + (left if rate[place] == 1.0 else left / rate[place])
                if where == -2 or over < moment:
                    where = place
                    moment = over
        if where == -2:
            break
        now = max(now, moment)
        changed = where
        begun = -1
        if where == -1:
            index = heappop(due)[1]
            starts[index] = now
            begun = 2 * index
        else:
            item = heappop(running[where])[1]
            index = item // 2
            asked[where] -= demand[index]
            if item % 2 == 0:
                ends[index] = now
                begun = item + 1
            else:
                freed[index] = now
                done += 1
                follower = after[index]
                if follower >= 0:
                    ready[follower] = max(ready[follower], now)
                    waiting[follower] -= 1
                    if waiting[follower] == 0:
                        heappush(due, (ready[follower], follower + 0))
        if begun >= 0:
            at_start = begun % 2 == 0
            for place in range(offsets[index], offsets[index + 1]):
                if from_start[place] == at_start:
                    target = targets[place] + 0  # + 0: as wide an integer as the heap holds
                    ready[target] = max(ready[target], now + lags[place])
                    waiting[target] -= 1
                    if waiting[target] == 0:
                        heappush(due, (ready[target], target))
            needs = resource_of[index] if at_start else resource_of_gap[index]
            takes = durations[index] if at_start else gaps[index]
            reading = work[needs] + (now - since[needs]) * rate[needs]
            heappush(running[needs], (reading + takes, begun))
            asked[needs] += demand[index]
            if needs != where and where >= 0:
                # Two resources change at once: this one is seen to here, the other below.
                full = capacities[needs]
                new = 1.0 if asked[needs] <= full * (1 + 1e-9) else full / asked[needs]
                if new != rate[needs]:
                    work[needs] = reading
                    since[needs] = now
                    rate[needs] = new
            else:
                changed = needs
        if len(running[changed]) == 0:
            asked[changed] = 0.0  # what rounding left
        full = capacities[changed]
        new = 1.0 if asked[changed] <= full * (1 + 1e-9) else full / asked[changed]
        if new != rate[changed]:
            work[changed] += (now - since[changed]) * rate[changed]
            since[changed] = now
            rate[changed] = new
    return done
