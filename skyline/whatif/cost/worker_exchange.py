"""The exchange of gradients between workers that the script does not have yet: sizes, times and link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Semantics, Stage, UsualWhatIf
from skyline.whatif.constant import Constant
from skyline.whatif.subject import Subject

_USUAL_GBIT_S = Constant.at(
    10.0, "an assumption: Ethernet of 10 Gbit/s between the workers, where none is given"
)
REACHED = Constant(
    0.8, 0.5, 0.95, "an assumption: the share of its nominal rate that an exchange reaches on a link"
)
_NUMBER_BYTES = Constant.at(4.0, "the width of a gradient in float32")
_MOST_WORKERS = 100_000
LINKS = "links between workers"
"""The name of the lane of exchanges."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The number of workers, each with a copy of the model, and the rate of a worker's link per direction in Gbit/s."""

    count: int
    gbit_s: float

    @classmethod
    def parse(cls, name: str, value: str) -> Workers:
        """``8`` or ``8@25``: the number of workers, and the Gbit/s of a link. Raises UsageError."""
        count, at, rate = value.partition("@")
        try:
            found = cls(int(count), float(rate) if at else _USUAL_GBIT_S.value)
        except ValueError:
            found = cls(0, 0.0)
        if not 2 <= found.count <= _MOST_WORKERS or not 0.001 <= found.gbit_s <= 1e5:
            raise UsageError(
                f"{name} needs a number of workers" if not value else f"{name}={value} is not possible",
                hint=f"{name}=4 for 4 workers at {_USUAL_GBIT_S.value:g} Gbit/s each, {name}=4@25 for 25 Gbit/s.",
            )
        return found

    def bytes_per_us(self, reached: float) -> float:
        """The rate of one direction of a link, in bytes per µs."""
        return self.gbit_s / 8 * 1e3 * reached

    def assumption(self) -> str:
        """The link in words."""
        low, high = REACHED.low, REACHED.high
        return (
            f"{self.count} equal workers, each with a link of {self.gbit_s:g} Gbit/s, of which an exchange reaches "
            f"{REACHED.value:.0%} ({low:.0%} to {high:.0%})"
        )


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradients of one module in one iteration.

    ``ready`` is the last task of its backward pass, ``used`` the first one of its forward pass.
    """

    module: int
    size_bytes: float
    ready: int
    used: int


@dataclass(frozen=True, slots=True)
class BetweenWorkers(UsualWhatIf):
    """A what-if in which a script of one rank trains its model with several workers, each with its own batches."""

    training_only: bool = True
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.COMMUNICATION

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to a script of one rank whose work is known by module."""
        reason = why_alone(subject, subject.graph_of(self.grain))
        return Applicability.no(reason) if reason else Applicability(True)


def why_alone(subject: Subject, graph: Graph) -> str:
    """The reason why no exchange between further workers can be predicted; empty if it can."""
    if subject.script.parallel is not None and subject.script.parallel.world_size > 1:
        return "the script has several ranks already"
    if not any(one.trainable for one in subject.script.modules):
        return "the trained modules are not known"
    if not gradients_of(subject, graph, graph.iterations[0]):
        return "the assignment of work to modules is not known"
    return ""


def gradients_of(subject: Subject, graph: Graph, iteration: int) -> tuple[Gradient, ...]:
    """The gradients of an iteration in the order in which they are ready.

    Parameters of modules without recorded work are sent with the last gradient.
    """
    profile = subject.script
    paths = profile.trace.modules
    sizes = {one.path: one.parameter_count * _NUMBER_BYTES.value for one in profile.modules if one.trainable}
    modules = graph.tasks.module
    forward, backward = (
        working(subject, graph, phase, iteration) for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    found: list[Gradient] = []
    for number, path in enumerate(paths):
        there, back = forward[modules[forward] == number], backward[modules[backward] == number]
        if len(there) and len(back) and sizes.get(path):
            found.append(Gradient(number, sizes.pop(path), int(back[-1]), int(there[0])))
    found.sort(key=lambda one: one.ready)
    if found and (left := sum(sizes.values())):
        found[-1] = replace(found[-1], size_bytes=found[-1].size_bytes + left)
    return tuple(found)


def working(subject: Subject, graph: Graph, phase: Phase, iteration: int) -> Indices:
    """The tasks of a phase that compute: GPU kernels, or the operators of the script's thread."""
    if subject.on_gpu:
        return select(graph, kind=TaskKind.KERNEL, phase=phase, iteration=iteration)
    return select(graph, lane=subject.lane, phase=phase, iteration=iteration)


def after_backward(subject: Subject, graph: Graph, iteration: int) -> int | None:
    """The first task after the backward pass on its lane, which has to wait for the gradients."""
    backward = working(subject, graph, Phase.BACKWARD, iteration)
    if not len(backward):
        return None
    last = int(backward[-1])
    lane = graph.tasks.lane
    following = np.flatnonzero((lane == lane[last]) & (graph.tasks.iteration == iteration))
    behind = following[following > last]
    return int(behind[0]) if len(behind) else None


def link_task(subject: Subject, name: str, lane: str, iteration: int) -> Task:
    """A task that occupies a link."""
    kind = TaskKind.COPY if subject.on_gpu else TaskKind.CPU
    return Task(name, kind, WorkClass.OTHER, lane, Phase.COMMUNICATION, iteration)
