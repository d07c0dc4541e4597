"""Live tensor memory over an iteration with the changes of a scenario, by owner, and its peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isclose

import numpy as np

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels
from skyline.memory.peak import MemoryBreakdown

LevelChange = Callable[[RecordedLevels], RecordedLevels]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The levels over an iteration with the changes so far, and the bytes of parameters and optimizer state in them.

    A change acts on the levels, and the peak is the highest one: it may move, for example from the end of the forward
    pass to the optimizer step. The peak is at most ``below_bytes`` lower and ``above_bytes`` higher than that. ``more``
    and ``less`` change an owner: ``parameters``, ``optimizer`` and ``other`` at all moments, ``gradients`` and
    ``activations`` in proportion to their level at each moment.
    """

    levels: RecordedLevels
    parameters: float
    optimizer: float
    below_bytes: float = 0.0
    above_bytes: float = 0.0

    @classmethod
    def of(cls, peak: MemoryBreakdown, recorded: RecordedLevels | None) -> Memory:
        """The recorded memory, known to the byte. Without recorded levels, the iteration has the one level of the peak.

        The run reports the peak itself; the levels are shifted by what the recorded allocations do not explain.
        """
        levels = RecordedLevels.at_one_moment(peak) if recorded is None else recorded
        return cls(
            levels.shifted(peak.total - levels.peak().peak_bytes),
            float(peak.parameters),
            float(peak.optimizer),
        )

    @property
    def peak_bytes(self) -> Interval:
        """The highest level."""
        peak = self.levels.peak().peak_bytes
        return Interval(peak, max(0.0, peak - self.below_bytes), peak + self.above_bytes)

    def changed(self, likely: LevelChange, *bounds: LevelChange) -> Memory:
        """This memory with a change of its levels, and with its ``bounds`` if it is uncertain."""
        levels = likely(self.levels)
        peak = levels.peak().peak_bytes
        peaks = [peak, *(bound(self.levels).peak().peak_bytes for bound in bounds)]
        return replace(
            self,
            levels=levels,
            below_bytes=self.below_bytes + peak - min(peaks),
            above_bytes=self.above_bytes + max(peaks) - peak,
        )

    def unsure(self, share: float) -> Memory:
        """This memory with a range that is wider by this share of the peak, in both directions."""
        more = share * self.levels.peak().peak_bytes
        return replace(self, below_bytes=self.below_bytes + more, above_bytes=self.above_bytes + more)

    def with_activations(self, factor: Interval) -> Memory:
        """This memory with the activations multiplied by a factor."""
        return self.changed(*(partial(RecordedLevels.scaled, factor=end) for end in factor.ends))

    def less(self, owner: str, size_bytes: Interval) -> Memory:
        """This memory with ``size_bytes`` less for an owner (``activations``, …), and never below 0."""
        return self.more(owner, Interval(-size_bytes.value, -size_bytes.high, -size_bytes.low))

    def more(self, owner: str, size_bytes: Interval) -> Memory:
        """This memory with ``size_bytes`` more for an owner."""
        ends = size_bytes.ends
        if owner in ("parameters", "optimizer"):
            had: float = getattr(self, owner)
            ends = tuple(max(-had, end) for end in ends)
        change = _OWNERS.get(owner, RecordedLevels.shifted)
        made = self.changed(*(partial(change, size_bytes=end) for end in ends))
        if owner not in ("parameters", "optimizer"):
            return made
        return replace(made, **{owner: getattr(self, owner) + ends[0]})

    def with_weights(self, factor: float) -> Memory:
        """This memory with parameters, gradients and optimizer state multiplied by a factor."""
        more = (factor - 1.0) * (self.parameters + self.optimizer)
        made = self.changed(lambda levels: levels.with_gradients(factor).shifted(more))
        return replace(made, parameters=factor * self.parameters, optimizer=factor * self.optimizer)

    def to_peak(self, peak: Interval, batch_bytes: float, factor: float) -> Memory:
        """This memory with activations that give the peak ``peak``, for a batch of ``factor`` times ``batch_bytes``.

        If the peak is too low even without activations, all levels are lower.
        """
        more = (factor - 1.0) * batch_bytes
        return self.changed(*(_peaking(end, more, factor) for end in peak.ends))


MemoryChange = Callable[[Memory], Memory]
"""The effect of a change on the memory."""


def activations_for(levels: RecordedLevels, peak_bytes: float, usual: float) -> float:
    """The factor on the activations that gives this peak.

    If a moment without activations has this peak, or a higher one, every smaller factor gives it, too: then the result
    is at most ``usual``.
    """
    held = levels.activations >= 1
    if not held.any():
        return usual
    rest = levels.live - levels.activations
    most = max(0.0, float(np.min((peak_bytes - rest[held]) / levels.activations[held])))
    of_rest = float(rest.max())
    return min(usual, most) if of_rest > peak_bytes or isclose(of_rest, peak_bytes, rel_tol=1e-3) else most


_OWNERS = {"activations": RecordedLevels.more_activations, "gradients": RecordedLevels.more_gradients}


def _peaking(peak_bytes: float, batch_bytes: float, factor: float) -> LevelChange:
    def change(levels: RecordedLevels) -> RecordedLevels:
        made = levels.shifted(batch_bytes)
        made = made.scaled(activations_for(made, peak_bytes, factor))
        return made.shifted(peak_bytes - made.peak().peak_bytes)

    return change
