"""The levels of live tensor memory over the recorded iteration, and the effects of changes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from skyline.memory.peak import MemoryBreakdown, live_blocks
from skyline.memory.recomputation import KeptByBlock, kept_by_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Phase, Trace

_Sizes = npt.NDArray[np.float64]


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
    optimizer step. The step runs at the moments ``in_step``, which is the last one if it takes no temporary memory.
    ``most_activations`` are the most activations if no block is recomputed.
    """

    times_us: _Sizes
    live: _Sizes
    activations: _Sizes
    gradients: _Sizes
    stepping: _Sizes
    in_step: npt.NDArray[np.bool_]
    kept: tuple[KeptByBlock, ...]
    most_activations: float

    @classmethod
    def at_one_moment(cls, peak: MemoryBreakdown) -> RecordedLevels:
        """The peak as the only level, for an iteration without recorded allocations."""
        activations = float(peak.activations)
        live, held, gradients, nothing = (
            np.array([float(size)]) for size in (peak.total, activations, peak.gradients, 0)
        )
        return cls(nothing, live, held, gradients, nothing, np.zeros(1, np.bool_), (), activations)

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

    def shifted(self, size_bytes: float) -> RecordedLevels:
        """The levels with ``size_bytes`` more at all moments."""
        return replace(self, live=self.live + size_bytes)

    def having_gradients(self, gradients: _Sizes) -> RecordedLevels:
        """The levels with these gradients, by moment."""
        return replace(self, live=self.live + gradients - self.gradients, gradients=gradients)

    def more_activations(self, size_bytes: float) -> RecordedLevels:
        """The levels with this much more at the moment of the most activations, and in proportion at the others.

        Less is taken of the most activations without recomputed blocks: what these blocks no longer keep is gone.
        """
        most = float(self.activations.max()) if size_bytes > 0 else self.most_activations
        if most <= 0:
            held = np.full(len(self.live), max(0.0, size_bytes))
            return replace(self, live=self.live + held, activations=held, most_activations=float(held.max()))
        return self.scaled(max(0.0, 1.0 + size_bytes / most))

    def more_gradients(self, size_bytes: float) -> RecordedLevels:
        """The levels with this much more at the moment of the most gradients, and in proportion at the others."""
        highest = float(self.gradients.max())
        if highest <= 0:
            return self.having_gradients(np.full(len(self.live), max(0.0, size_bytes)))
        return self.having_gradients(max(0.0, 1.0 + size_bytes / highest) * self.gradients)

    def without_gradients(self, size_bytes: float) -> RecordedLevels:
        """The levels without gradients of this size, which are among those that exist at each moment."""
        return self.having_gradients(np.maximum(0.0, self.gradients - size_bytes))

    def without_activations(self, gone: _Sizes) -> RecordedLevels:
        """The levels with fewer activations, by moment. Blocks from before the recording are in ``live`` alone."""
        left = np.maximum(0.0, self.activations - gone)
        before = float(self.activations.max())
        share = float(left.max()) / before if before > 0 else 1.0
        live, most = self.live - gone, share * self.most_activations
        return replace(self, live=live, activations=left, most_activations=most)

    def with_step(self, temporary_bytes: float) -> RecordedLevels:
        """The levels with this much temporary memory while the optimizer steps."""
        stepping = np.where(self.in_step, temporary_bytes, 0.0)
        return replace(self, live=self.live + stepping - self.stepping, stepping=stepping)

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
    kept = kept_by_blocks(trace, blocks, live)
    stepping = np.cumsum(stepping)
    in_step = stepping > 0
    # A step without temporary memory shows no moment of its own: it is the last one.
    in_step[-1] |= not in_step.any()
    times = np.array([one.time_us for one in allocations])
    level_of_activations = np.cumsum(activations)
    return RecordedLevels(
        times,
        live,
        level_of_activations,
        level_of_gradients,
        stepping,
        in_step,
        kept,
        float(level_of_activations.max()),
    )
