"""Random numbers in the forward pass of a script."""

from __future__ import annotations

from skyline.graph.graph import Graph

OTHER_DRAWS = "dropout draws other random numbers: training is as random as before, but not the same run"
"""The assumption of changes that draw the numbers in another order or with another generator."""


def draws(graph: Graph) -> bool:
    """True if dropout was recorded."""
    return any("dropout" in name for name in graph.tasks.names)
