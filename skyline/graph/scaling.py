"""Primitive: tasks take longer or less long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def scale(graph: Graph, chosen: Iterable[int], factor: npt.ArrayLike, *, gaps: bool = False) -> Graph:
    """The chosen tasks take ``factor`` times as long; with ``gaps`` so does the CPU time after them.

    ``factor`` is one number, or one for each chosen task. The structure stays and is shared.

    Raises:
        ValueError: a factor is negative or not finite.
    """
    factors = np.asarray(factor, np.float64)
    if not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError("a task takes a finite time: factors are finite and not negative")
    places = indices(chosen)
    durations = graph.durations.copy()
    durations[places] *= factors
    if not gaps:
        return graph.with_times(durations=durations)
    after = graph.gaps.copy()
    after[places] *= factors
    return graph.with_times(durations=durations, gaps=after)
