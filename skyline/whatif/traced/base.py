"""What a question about a recording is: a change to its graph, with what it takes for granted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot
from typing import Protocol

from skyline.graph.graph import Graph
from skyline.whatif.base import Applicability, Basis, Semantics, Stage
from skyline.whatif.traced.recording import Recording, step_ms


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """A recording with some changes made: still to be simulated.

    ``below_ms`` and ``above_ms`` are how far a step may lie below and above what the graph simulates to, on
    account of the changes alone.
    """

    graph: Graph
    below_ms: float = 0.0
    above_ms: float = 0.0
    assumptions: tuple[str, ...] = ()
    memory_changes: bool = False

    def between(
        self,
        recording: Recording,
        graph: Graph,
        least: Graph,
        most: Graph,
        *,
        assumptions: tuple[str, ...],
        memory_changes: bool = False,
    ) -> Changed:
        """With another graph, and with its best and its worst case, both simulated."""
        now = step_ms(recording, graph)
        return self.to(
            graph,
            below_ms=max(0.0, now - step_ms(recording, least)),
            above_ms=max(0.0, step_ms(recording, most) - now),
            assumptions=assumptions,
            memory_changes=memory_changes,
        )

    def to(
        self,
        graph: Graph,
        *,
        below_ms: float = 0.0,
        above_ms: float = 0.0,
        assumptions: tuple[str, ...] = (),
        memory_changes: bool = False,
    ) -> Changed:
        """With another graph, and the uncertainty that comes with it added as an independent one."""
        return replace(
            self,
            graph=graph,
            below_ms=hypot(self.below_ms, below_ms),
            above_ms=hypot(self.above_ms, above_ms),
            assumptions=(*self.assumptions, *assumptions),
            memory_changes=self.memory_changes or memory_changes,
        )


class TracedWhatIf(Protocol):
    """One change that can be asked about. A module of this package defines it and binds it to ``WHATIF``."""

    name: str
    semantics: Semantics
    stage: Stage

    def title(self, value: str) -> str:
        """What the change does, in a few words, for this value."""
        ...

    def basis(self, recording: Recording) -> Basis:
        """How far the prediction has been held against measurements, for a recording like this."""
        ...

    def detect(self, recording: Recording) -> Applicability:
        """Whether the change makes sense for what was recorded."""
        ...

    def transform(self, changed: Changed, value: str, recording: Recording) -> Changed:
        """Make the change; only called where it is applicable.

        Raises:
            UsageError: the value is not one that this what-if takes.
        """
        ...
