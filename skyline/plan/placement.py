"""Placement of the layers of a graph on the stages of a pipeline, such that the slowest stage is as fast as possible.

Dynamic programming over ideals (Tarnawski et al. 2020, *Efficient Algorithms for Device Placement of DNN
Graph Operators*). The layers of the first stages are an ideal: a set of layers that contains everything its
layers need. A stage is the difference of two ideals.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from skyline.lazy_dataclass import dataclass

MOST_IDEALS = 1000
"""Largest number of ideals that are all examined: for each stage, the effort grows with the square of their number."""


@dataclass(frozen=True, slots=True)
class GraphLayer:
    """A layer of one rank: time in µs of both passes of a micro-batch, and memory in bytes.

    ``state_bytes`` does not depend on the micro-batches in flight. ``kept_bytes`` are the activations of one
    micro-batch. A layer that recomputes keeps ``input_bytes`` instead and takes ``again_us`` longer.
    """

    time_us: float
    state_bytes: float = 0.0
    kept_bytes: float = 0.0
    again_us: float = 0.0
    input_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """Layers in an order in which they can run, and pairs of layers: the second one needs the first one."""

    layers: tuple[GraphLayer, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def chain(cls, layers: Sequence[GraphLayer]) -> LayerGraph:
        """Layers that each need the previous one."""
        return cls(tuple(layers), tuple((one - 1, one) for one in range(1, len(layers))))


@dataclass(frozen=True, slots=True)
class StageLimits:
    """The memory of a stage for layers, in bytes, and for each stage the number of its micro-batches in flight.

    ``recompute`` lets a stage that does not fit otherwise recompute all its layers.
    """

    room_bytes: float
    held: tuple[float, ...]
    recompute: bool = False

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.held)


@dataclass(frozen=True, slots=True)
class Placement:
    """The layers of each stage, the stages that recompute, and the time of the slowest stage in µs."""

    stages: tuple[tuple[int, ...], ...]
    recomputed: tuple[bool, ...]
    slowest_us: float
    exact: bool = True
    """False if the graph has more ideals than were examined, so that a better placement may exist."""


def place(graph: LayerGraph, limits: StageLimits, most: int = MOST_IDEALS) -> Placement | None:
    """The placement whose slowest stage is fastest. None if no placement fits.

    Each stage has at least one layer. A graph with more than ``most`` ideals is cut along the order of its
    layers.
    """
    found = ideals(graph, most)
    exact = found is not None
    if found is None:
        found = [(1 << count) - 1 for count in range(len(graph.layers) + 1)]
    cut = _best_cut(_Differences.of(found, graph.layers), limits)
    if cut is None:
        return None
    ends, slowest_us = cut
    stages = [_members(found[end] ^ found[start]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    recomputed = [
        stage_cost([graph.layers[one] for one in layers], limits, stage)[1]
        for stage, layers in enumerate(stages)
    ]
    return Placement(tuple(stages), tuple(recomputed), slowest_us, exact)


def stage_cost(layers: Sequence[GraphLayer], limits: StageLimits, stage: int) -> tuple[float, bool]:
    """The time of a stage with these layers, infinite if they do not fit, and whether it recomputes to fit.

    A stage that recomputes needs the activations of one layer at a time: the largest layer counts.
    """
    held = limits.held[stage]
    states = sum(one.state_bytes for one in layers)
    time_us = sum(one.time_us for one in layers)
    if states + held * sum(one.kept_bytes for one in layers) <= limits.room_bytes:
        return time_us, False
    if limits.recompute:
        largest = max(one.kept_bytes for one in layers)
        if states + held * sum(one.input_bytes for one in layers) + largest <= limits.room_bytes:
            return time_us + sum(one.again_us for one in layers), True
    return inf, False


def ideals(graph: LayerGraph, most: int) -> list[int] | None:
    """All ideals as sets of bits, smaller ones first; None if there are more than ``most``."""
    needs = [0] * len(graph.layers)
    for before, after in graph.edges:
        needs[after] |= 1 << before
    found, seen = [0], {0}
    # The list grows during the iteration: each ideal leads to the ideals with one more layer.
    for ideal in found:
        for layer, need in enumerate(needs):
            larger = ideal | 1 << layer
            if larger != ideal and need & ideal == need and larger not in seen:
                if len(found) == most:
                    return None
                seen.add(larger)
                found.append(larger)
    return found


def _best_cut(differences: _Differences, limits: StageLimits) -> tuple[list[int], float] | None:
    """The ideal after each stage, which is the whole graph after the last, and the time of the slowest stage."""
    # For each ideal, the time of the slowest stage so far and the ideal before the last stage.
    count = len(differences.time_us)
    best = np.full(count, inf)
    best[0] = 0.0
    before: list[npt.NDArray[np.intp]] = []
    costs: dict[float, npt.NDArray[np.float64]] = {}
    for held in limits.held:
        if held not in costs:
            costs[held] = differences.costs_us(limits, held)
        slowest = np.maximum(best[:, None], costs[held])
        before.append(np.argmin(slowest, axis=0))
        best = slowest[before[-1], np.arange(count)]
    if not np.isfinite(best[-1]):
        return None
    ends = [count - 1]
    for starts in reversed(before[1:]):
        ends.append(int(starts[ends[-1]]))
    return ends[::-1], float(best[-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    """Sums over the layers between two ideals. Rows are the first ideals, columns the second ones.

    ``time_us`` is infinite unless the first ideal is a proper subset of the second.
    """

    time_us: npt.NDArray[np.float64]
    again_us: npt.NDArray[np.float64]
    state_bytes: npt.NDArray[np.float64]
    kept_bytes: npt.NDArray[np.float64]
    input_bytes: npt.NDArray[np.float64]
    largest_bytes: npt.NDArray[np.float64]

    @classmethod
    def of(cls, found: Sequence[int], layers: Sequence[GraphLayer]) -> _Differences:
        members = np.array([[ideal >> layer & 1 for layer in range(len(layers))] for ideal in found])
        within = np.triu(members @ (1 - members.T) == 0, 1)

        def between(*numbers: float) -> npt.NDArray[np.float64]:
            sums = members @ np.array(numbers)
            return sums[None, :] - sums[:, None]

        largest = np.zeros(within.shape)
        for layer, one in enumerate(layers):
            added = members[None, :, layer] > members[:, None, layer]
            np.maximum(largest, one.kept_bytes * added, out=largest)
        return cls(
            np.where(within, between(*(one.time_us for one in layers)), inf),
            between(*(one.again_us for one in layers)),
            between(*(one.state_bytes for one in layers)),
            between(*(one.kept_bytes for one in layers)),
            between(*(one.input_bytes for one in layers)),
            largest,
        )

    def costs_us(self, limits: StageLimits, held: float) -> npt.NDArray[np.float64]:
        """The time of a stage between each pair of ideals, as computed by ``stage_cost``."""
        fits = self.state_bytes + held * self.kept_bytes <= limits.room_bytes
        least = self.state_bytes + held * self.input_bytes + self.largest_bytes
        again = np.where(limits.recompute & (least <= limits.room_bytes), self.time_us + self.again_us, inf)
        return np.where(fits, self.time_us, again)


def _members(bits: int) -> tuple[int, ...]:
    return tuple(one for one in range(bits.bit_length()) if bits >> one & 1)
