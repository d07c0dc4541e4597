"""What is asked about: a script as its profile shows it, or as a trace of PyTorch's profiler does."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from skyline.graph.graph import Graph
from skyline.interval import Interval
from skyline.trace.profile import Profile
from skyline.whatif.memory import Memory

UNSEEN_GPU = "the profiler recorded none of the GPU's work; skyline doctor says what to do"
"""Why rules and what-ifs about the GPU's work say nothing about such a profile."""

NEEDS_PROFILE = "not known from a trace; profile the script for it: skyline profile SCRIPT"
"""Why what-ifs that look at more than operators say nothing about a trace."""


class Grain(int, Enum):
    """How finely a graph divides the work; the coarser, the sooner simulated."""

    PHASES = 0
    """A task for each stretch of one kind of work in one phase."""
    OPERATORS = 1
    """A task for each operator, call, kernel and copy, with its module, line and shapes."""


class Subject(Protocol):
    """The script as it stands: what every what-if starts from. ``Baseline`` and ``Recording`` are such.

    What-ifs that know more about one of them ask with ``isinstance``.
    """

    @property
    def profile(self) -> Profile | None:
        """The profile; None of a trace, which tells little of loaders, optimizers, modules and settings."""
        ...

    @property
    def lane(self) -> str:
        """The lane of the script's own thread."""
        ...

    @property
    def on_gpu(self) -> bool:
        """Whether the script computes on a device of its own."""
        ...

    @property
    def gpu_recorded(self) -> bool:
        """Whether what a device of its own did is known: the profiler is not always allowed to see it."""
        ...

    @property
    def iteration_ms(self) -> Interval:
        """What an iteration takes."""
        ...

    @property
    def steps(self) -> int:
        """How many iterations the graphs hold."""
        ...

    @property
    def memory(self) -> Memory | None:
        """The peak by owner; None where it is not known."""
        ...

    @property
    def samples(self) -> int | None:
        """Samples in one iteration, where that could be seen."""
        ...

    def graph_of(self, grain: Grain) -> Graph:
        """The graph of the unchanged script, of this grain or a finer one."""
        ...

    def step_ms(self, graph: Graph) -> float:
        """What an iteration of a changed graph takes in a run that goes on, by simulation, in ms."""
        ...


def has_unseen_gpu(subject: Subject) -> bool:
    """Whether the script computes on a device whose work is not in the recording."""
    return subject.on_gpu and not subject.gpu_recorded
