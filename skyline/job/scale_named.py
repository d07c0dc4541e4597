"""What-if: tasks of certain names take longer or less long, on every rank."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.graph import Graph
from skyline.graph.scaling import scale
from skyline.graph.selection import select


@dataclass(frozen=True, slots=True)
class ScaleNamed:
    """A change of a graph that can be sent to other processes."""

    factors: tuple[tuple[str, float], ...]
    """A part of the tasks' names, and how many times as long they take."""

    def __call__(self, graph: Graph) -> Graph:
        """Of a task that several names fit, every factor counts."""
        for name, factor in self.factors:
            graph = scale(graph, select(graph, name=name), factor)
        return graph
