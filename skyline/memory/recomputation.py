"""Memory saved by recomputing blocks of the forward pass in the backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from skyline.memory.peak import live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Phase, Trace

_Sizes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KeptByBlock:
    """Memory that one forward pass through a block keeps for the backward pass.

    ``begin``, ``left`` and ``back`` are numbers of allocations: the first in the block's forward pass, the first after
    it, the first in its backward pass. ``kept_bytes`` is live from ``left`` to ``back``, without the block's output.
    ``passing_bytes`` is the maximum rise of the level until the last kept tensor exists.
    """

    path: str
    begin: int
    left: int
    back: int
    kept_bytes: int
    passing_bytes: int


@dataclass(frozen=True, slots=True)
class Level:
    """The highest level of memory, with its gradients and activations."""

    peak_bytes: float
    gradients: float
    activations: float


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLevels:
    """The levels of the recorded iteration, one after each allocation, and the memory that blocks keep.

    ``activations``, ``gradients`` and ``stepping`` are parts of ``live``; ``stepping`` is temporary memory of the
    optimizer step. ``most_activations`` are the most activations if no block is recomputed.
    """

    times_us: _Sizes
    live: _Sizes
    activations: _Sizes
    gradients: _Sizes
    stepping: _Sizes
    kept: tuple[KeptByBlock, ...]
    most_activations: float

    def peak(self) -> Level:
        """The highest level."""
        moment = int(self.live.argmax())
        activations = max(0.0, float(self.activations[moment]))
        return Level(float(self.live[moment]), float(self.gradients[moment]), activations)

    def scaled(self, factor: float) -> RecordedLevels:
        """The levels with all activations, and all that blocks keep, multiplied by ``factor``."""
        kept = (
            replace(
                one,
                kept_bytes=round(factor * one.kept_bytes),
                passing_bytes=round(factor * one.passing_bytes),
            )
            for one in self.kept
        )
        return replace(
            self,
            live=self.live + (factor - 1.0) * self.activations,
            activations=factor * self.activations,
            kept=tuple(kept),
            most_activations=factor * self.most_activations,
        )

    def recomputed(self, paths: Collection[str]) -> RecordedLevels:
        """The levels with some blocks recomputed.

        A recomputed block keeps nothing between its passes. Directly before its backward pass it is computed again,
        which needs the memory of its forward pass.
        """
        chosen = [block for block in self.kept if block.path in paths]
        change = np.zeros(len(self.live) + 1)
        for block in chosen:
            change[block.left] -= block.kept_bytes
            change[block.back] += block.kept_bytes
        more = np.cumsum(change)[: len(self.live)]
        for block in chosen:
            # Directly before its backward pass a block holds nothing yet, nor do the blocks recomputed later.
            gone = sum(one.kept_bytes for one in chosen if one.left <= block.back <= one.back)
            before = max(0, block.back - 1)
            more[before] = max(more[before], block.passing_bytes - gone)
        left = tuple(block for block in self.kept if block.path not in paths)
        return replace(self, live=self.live + more, activations=self.activations + more, kept=left)

    def with_weights(self, less_bytes: float, gradients: float, stepping: float) -> RecordedLevels:
        """The levels with ``less_bytes`` less of lasting memory, and factors on gradients and temporary memory."""
        freed = (1.0 - gradients) * self.gradients + (1.0 - stepping) * self.stepping
        return replace(
            self,
            live=self.live - less_bytes - freed,
            gradients=gradients * self.gradients,
            stepping=stepping * self.stepping,
        )


def recorded_levels(end: MemoryFact, trace: Trace, blocks: Sequence[str]) -> RecordedLevels | None:
    """The levels of the iteration with recorded allocations; None if there is none.

    ``blocks`` are paths of modules. The levels are summed backwards from the live memory at the end.
    """
    allocations = trace.allocations
    if not allocations or not trace.iterations:
        return None
    change = np.array([one.size_bytes for one in allocations], np.float64)
    live = end.total_bytes - change.sum() + np.cumsum(change)
    activations, gradients, stepping = np.zeros((3, len(change)))
    found = live_blocks(allocations)
    paired: set[int] = set()
    for block in found:
        if block.freed is not None:
            paired.add(block.freed)
        if block.phase is Phase.OPTIMIZER and block.freed is not None:
            owner = stepping
        elif block.phase in (Phase.FORWARD, Phase.BACKWARD):
            # Blocks that outlive the backward pass are gradients of parameters.
            stays = block.freed is None and block.phase is Phase.BACKWARD
            owner = gradients if stays else activations
        else:
            continue
        owner[block.taken] += block.size_bytes
        if block.freed is not None:
            owner[block.freed] -= block.size_bytes
    new = gradients.sum()
    # A block as large as a gradient that precedes the recording is the gradient of the previous iteration.
    sizes: Counter[float] = Counter(gradients[gradients > 0].tolist())
    for index, one in enumerate(allocations):
        if one.size_bytes < 0 and index not in paired and sizes[-one.size_bytes] > 0:
            sizes[-one.size_bytes] -= 1
            gradients[index] += one.size_bytes
    older = min(end.gradient_bytes, new, -gradients[gradients < 0].sum())
    level_of_gradients = np.maximum(0.0, max(0.0, end.gradient_bytes - new) + older + np.cumsum(gradients))
    kept = _kept_by_blocks(trace, blocks, live)
    times = np.array([one.time_us for one in allocations])
    level_of_activations = np.cumsum(activations)
    return RecordedLevels(
        times,
        live,
        level_of_activations,
        level_of_gradients,
        np.cumsum(stepping),
        kept,
        float(level_of_activations.max()),
    )


def _kept_by_blocks(trace: Trace, paths: Sequence[str], live: _Sizes) -> tuple[KeptByBlock, ...]:
    times = np.array([one.time_us for one in trace.allocations])
    found = live_blocks(trace.allocations)
    taken = np.array([block.taken for block in found], np.int64)
    freed = np.array([len(times) if block.freed is None else block.freed for block in found], np.int64)
    sizes = np.array([block.size_bytes for block in found], np.int64)
    kept: list[KeptByBlock] = []
    for path, forward, backward in _passes(trace, paths):
        begin, left = (int(np.searchsorted(times, moment)) for moment in forward)
        back = int(np.searchsorted(times, backward))
        inside = np.flatnonzero((taken >= begin) & (taken < left) & (freed >= left))
        # The last tensor is the block's output: the next block keeps it as its input.
        held = inside[:-1]
        held = held[freed[held] >= back]
        low = live[begin - 1] if begin else live[0]
        # The recomputation ends with the last tensor that the backward pass needs.
        needed = int(taken[held[-1]]) + 1 if len(held) else begin
        passing = float((live[begin:needed] - low).max(initial=0.0))
        kept.append(KeptByBlock(path, begin, left, back, int(sizes[held].sum()), round(passing)))
    return tuple(kept)


def _passes(trace: Trace, paths: Sequence[str]) -> list[tuple[str, tuple[float, float], float]]:
    """For each forward pass through each block: its begin, its end, and the begin of the backward pass."""
    last = trace.iterations[-1]
    below = {path: f"{path}." for path in paths}
    owner = [
        next((path for path, prefix in below.items() if module == path or module.startswith(prefix)), "")
        for module in trace.modules
    ]
    passes: list[tuple[str, tuple[float, float], float]] = []
    under_way: dict[str, tuple[float, float]] = {}
    for record in sorted(trace.records, key=lambda record: record.start_us):
        if not last.start_us <= record.start_us < last.end_us or record.module < 0:
            continue
        path = owner[record.module]
        if not path:
            continue
        if record.phase is Phase.FORWARD:
            begun = under_way.get(path, (record.start_us, 0.0))[0]
            under_way[path] = (begun, record.end_us)
        elif record.phase is Phase.BACKWARD and path in under_way:
            passes.append((path, under_way.pop(path), record.start_us))
    return passes
