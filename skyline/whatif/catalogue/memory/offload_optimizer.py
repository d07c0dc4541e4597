"""What if the host kept the optimizer's state and made the update."""

from __future__ import annotations

import numpy as np

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.launching import launches_of
from skyline.graph.selection import select
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import OptimizerFact
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Provenance, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.host_bus import IN, OUT, bytes_per_us, lane_beside
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.memory import Memory

_HOST_GB_S = Constant(
    60.0, 20.0, 150.0, "an assumption: the bandwidth of a server's memory that all cores reach together"
)
_PARTS = Constant.at(
    8,
    "copies of the gradients: each begins as soon as its share of the backward pass is done, as with DDP's buckets",
)
UPDATE = "update on the host"


@dataclass(frozen=True, slots=True)
class OffloadOptimizer(UsualWhatIf):
    """Copies gradients to the host during the backward pass, updates there, and copies the parameters back.

    ZeRO-Offload (Ren and others, 2021) does this. The host's update is one pass over memory.
    """

    name: str = "offload_optimizer"
    training_only: bool = True
    words: str = "keep the optimizer's state on the host, and update there"
    stage: Stage = Stage.OPTIMIZER
    excludes: tuple[str, ...] = ("fused_optimizer",)

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if a PyTorch optimizer with a state makes its step on a GPU."""
        facts = subject.script.optimizers
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if not facts:
            return Applicability.no("no PyTorch optimizer takes the step")
        if not sum(fact.state_bytes for fact in facts):
            return Applicability.no("the optimizer keeps no state")
        if any(update_of(fact) is None for fact in facts):
            return Applicability.no("the traffic of the optimizer's update is not known")
        graph = subject.graph_of(self.grain)
        work = (select(graph, kind=TaskKind.KERNEL, phase=one) for one in (Phase.BACKWARD, Phase.OPTIMIZER))
        if not all(map(len, work)):
            return Applicability.no("no backward pass with an update on a GPU was recorded")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Remove the update's kernels; add the copies, and the update on the script's thread."""
        facts = subject.script.optimizers
        cases = (
            _on_host(subject, scenario.graph, facts, bytes_per_us(subject, bus), getattr(_HOST_GB_S, memory))
            for bus, memory in (("value", "value"), ("high", "high"), ("low", "low"))
        )
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                f"the host updates at {_HOST_GB_S.value:.0f} GB/s, from {_HOST_GB_S.low:.0f} to {_HOST_GB_S.high:.0f}",
                "copies use pinned memory of the host, and streams of their own",
                "all parameters are float32",
            ),
            memory=_without_state,
            provenance=Provenance.ASSUMED,
        )


def _without_state(memory: Memory) -> Memory:
    return memory.less("optimizer", Interval.exact(memory.optimizer))


def _on_host(
    subject: Subject, graph: Graph, facts: tuple[OptimizerFact, ...], rate: float, host_gb_s: float
) -> Graph:
    tasks = graph.tasks
    update = select(graph, kind=TaskKind.KERNEL, phase=Phase.OPTIMIZER)
    bare = scale(graph, update, 0.0, gaps=True)
    bare = scale(bare, launches_of(graph, update), 0.0, gaps=True)
    size = FLOAT_BYTES.value * sum(fact.parameter_count for fact in facts)
    moved = sum(
        (known.fused_bytes if (known := update_of(fact)) else 0.0) * fact.parameter_count for fact in facts
    )
    host_us = moved / (host_gb_s * 1e3)
    insertions: list[Insertion] = []
    waits: list[Dependency] = []
    for iteration in graph.iterations:
        backward = select(graph, kind=TaskKind.KERNEL, phase=Phase.BACKWARD, iteration=iteration)
        stepping = select(graph, phase=Phase.OPTIMIZER, iteration=iteration, lane=subject.lane)
        if not len(backward) or not len(stepping):
            continue
        stream = tasks.lanes[int(tasks.lane[backward[0]])]
        last = -1
        for part in np.array_split(backward, min(int(_PARTS.value), len(backward))):
            task = Task(
                OUT, TaskKind.COPY, WorkClass.OTHER, lane_beside(stream, OUT), Phase.BACKWARD, iteration
            )
            last = len(graph) + len(insertions)
            insertions.append(Insertion(task, size * len(part) / len(backward) / rate, int(part[-1])))
            waits.append(Dependency(int(part[-1]), last, Cause.EVENT))
        task = Task(UPDATE, TaskKind.CPU, WorkClass.OTHER, subject.lane, Phase.OPTIMIZER, iteration)
        made = len(graph) + len(insertions)
        insertions.append(Insertion(task, host_us, int(stepping[0])))
        waits.append(Dependency(last, made, Cause.SYNC))
        task = Task(IN, TaskKind.COPY, WorkClass.OTHER, lane_beside(stream, IN), Phase.OPTIMIZER, iteration)
        insertions.append(Insertion(task, size / rate, int(stepping[0])))
        waits.append(Dependency(made, made + 1, Cause.LAUNCH))
        # The update's kernels take no time, but make the stream wait until the parameters have arrived.
        left = update[tasks.iteration[update] == iteration]
        if len(left):
            waits.append(Dependency(made + 1, int(left[-1]), Cause.EVENT))
    return insert(bare, insertions, waits)


WHATIF = OffloadOptimizer()
