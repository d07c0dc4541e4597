"""What a what-if is: a change to the graph and the memory, with what it takes for granted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import hypot
from typing import Protocol

from skyline.graph.graph import Graph
from skyline.interval import Interval
from skyline.whatif.baseline import Baseline


class Semantics(str, Enum):
    """What the change does to the training itself."""

    EXACT = "exact"
    """The same numbers come out, up to the order of floating-point sums."""
    NUMERICS = "numerics"
    """Other rounding."""
    CONVERGENCE = "convergence"
    """Another course of training."""


class Basis(str, Enum):
    """What the prediction was held against."""

    CPU_MEASURED = "cpu-measured"
    GPU_TRACE_PAIR = "gpu-trace-pair"
    MODEL_ONLY = "model-only"


class Stage(int, Enum):
    """In which order what-ifs are applied together: first what changes the work, last what moves it."""

    WORKLOAD = 0
    COMPUTE = 1
    OPTIMIZER = 2
    LOADING = 3


@dataclass(frozen=True, slots=True)
class Applicability:
    """Whether a what-if makes sense for a profile, why not, and which values to offer.

    ``default`` is the value that is meant where none is given.
    """

    applicable: bool
    reason: str = ""
    values: tuple[str, ...] = ()
    default: str = ""

    @classmethod
    def no(cls, reason: str) -> Applicability:
        """Not applicable, and why."""
        return cls(False, reason)


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """The script with some changes made: still to be simulated.

    ``below_ms`` and ``above_ms`` are how far the iteration may lie below and above what the graph simulates
    to, on account of the changes alone. ``reason`` is set where a change turned out to be impossible.
    """

    graph: Graph
    peak_bytes: Interval
    batch_size: int | None
    below_ms: float = 0.0
    above_ms: float = 0.0
    assumptions: tuple[str, ...] = ()
    extrapolated: bool = False
    reason: str = ""

    def changed(
        self, graph: Graph, *, below_ms: float = 0.0, above_ms: float = 0.0, assumptions: tuple[str, ...] = ()
    ) -> Scenario:
        """With another graph, and the uncertainty that comes with it added as an independent one."""
        return replace(
            self,
            graph=graph,
            below_ms=hypot(self.below_ms, below_ms),
            above_ms=hypot(self.above_ms, above_ms),
            assumptions=(*self.assumptions, *assumptions),
        )


class WhatIf(Protocol):
    """One change that can be asked about. A module of this package defines it and binds it to ``WHATIF``."""

    name: str
    semantics: Semantics
    stage: Stage

    def title(self, value: str) -> str:
        """What the change does, in a few words, for this value."""
        ...

    def basis(self, baseline: Baseline) -> Basis:
        """How far the prediction has been held against measurements, for a script like this."""
        ...

    def detect(self, baseline: Baseline) -> Applicability:
        """Whether the change makes sense for this script."""
        ...

    def transform(self, scenario: Scenario, value: str, baseline: Baseline) -> Scenario:
        """Make the change; only called where it is applicable.

        Raises:
            UsageError: the value is not one that this what-if takes.
        """
        ...
