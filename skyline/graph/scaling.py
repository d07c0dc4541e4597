"""Primitive: scale the durations of tasks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def scale(graph: Graph, chosen: Iterable[int], factor: npt.ArrayLike, *, gaps: bool = False) -> Graph:
    """Multiply the durations of the chosen tasks by ``factor``; with ``gaps``, also the CPU time after them.

    ``factor`` is one number, or one for each chosen task. The structure is shared.

    Raises:
        ValueError: a factor is negative or not finite.
    """
    factors = np.asarray(factor, np.float64)
    if not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError("factors must be finite and not negative")
    places = indices(chosen)
    durations = graph.durations.copy()
    durations[places] *= factors
    if not gaps:
        return graph.with_times(durations=durations)
    after = graph.gaps.copy()
    after[places] *= factors
    return graph.with_times(durations=durations, gaps=after)
