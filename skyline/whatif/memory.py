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
from skyline.whatif.constant import Constant

LevelChange = Callable[[RecordedLevels], RecordedLevels]
_SMALL = Constant.at(
    0.01,
    "an assumption: fewer of the most activations, such as a loss that is read after the step, decide nothing",
)
_LASTING = ("parameters", "optimizer")


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The levels over an iteration with the changes so far, and the bytes of parameters and optimizer state in them.

    A change acts on the levels, and the peak is the highest one: it may move, for example from the end of the forward
    pass to the optimizer step. ``low`` and ``high`` are the levels at the ends of the uncertainty; they are ``levels``
    if nothing is uncertain. ``more`` and ``less`` change an owner: ``parameters``, ``optimizer`` and ``other`` at all
    moments, ``gradients`` and ``activations`` in proportion to their level at each moment.
    """

    levels: RecordedLevels
    low: RecordedLevels
    high: RecordedLevels
    parameters: float
    optimizer: float

    @classmethod
    def at(cls, levels: RecordedLevels, parameters: float, optimizer: float) -> Memory:
        """Memory that is known to the byte."""
        return cls(levels, levels, levels, parameters, optimizer)

    @classmethod
    def of(cls, peak: MemoryBreakdown, recorded: RecordedLevels | None) -> Memory:
        """The recorded memory. Without recorded levels, the iteration has the one level of the peak.

        The run reports the peak itself; the levels are shifted by what the recorded allocations do not explain.
        """
        levels = RecordedLevels.at_one_moment(peak) if recorded is None else recorded
        unexplained = peak.total - levels.peak().peak_bytes
        return cls.at(levels.shifted(unexplained), float(peak.parameters), float(peak.optimizer))

    @property
    def peak_bytes(self) -> Interval:
        """The highest level, and its range."""
        likely, low, high = (one.peak().peak_bytes for one in (self.levels, self.low, self.high))
        return Interval(likely, max(0.0, min(low, likely)), max(high, likely))

    def changed(self, likely: LevelChange, *bounds: LevelChange) -> Memory:
        """This memory with a change of its levels, and with its ``bounds`` if it is uncertain."""
        levels = likely(self.levels)
        if not bounds and self.low is self.levels is self.high:
            return replace(self, levels=levels, low=levels, high=levels)
        changes = (likely, *bounds)
        low = min((change(self.low) for change in changes), key=_highest)
        high = max((change(self.high) for change in changes), key=_highest)
        return replace(self, levels=levels, low=low, high=high)

    def unsure(self, size_bytes: float) -> Memory:
        """This memory with a range that is wider by this size in both directions."""
        return replace(self, low=self.low.shifted(-size_bytes), high=self.high.shifted(size_bytes))

    def with_activations(self, factor: Interval) -> Memory:
        """This memory with the activations multiplied by a factor."""
        return self.changed(*(partial(RecordedLevels.scaled, factor=end) for end in _ends(factor)))

    def less(self, owner: str, size_bytes: Interval) -> Memory:
        """This memory with ``size_bytes`` less for an owner (``activations``, …). Owners but ``other`` stay above 0."""
        return self.more(owner, Interval(-size_bytes.value, -size_bytes.high, -size_bytes.low))

    def more(self, owner: str, size_bytes: Interval) -> Memory:
        """This memory with ``size_bytes`` more for an owner."""
        ends = _ends(size_bytes)
        if owner in _LASTING:
            had: float = getattr(self, owner)
            ends = tuple(max(-had, end) for end in ends)
        made = self.changed(*(partial(_CHANGES[owner], size_bytes=end) for end in ends))
        return replace(made, **{owner: getattr(self, owner) + ends[0]}) if owner in _LASTING else made

    def with_weights(self, factor: float) -> Memory:
        """This memory with parameters, gradients, optimizer state and temporary memory of the step times a factor."""
        less = (1.0 - factor) * (self.parameters + self.optimizer)
        change = partial(RecordedLevels.with_weights, less_bytes=less, gradients=factor, stepping=factor)
        made = self.changed(change)
        return replace(made, parameters=factor * self.parameters, optimizer=factor * self.optimizer)

    def to_peak(self, peak: Interval, batch_bytes: float, factor: float) -> Memory:
        """This memory with activations that give the peak ``peak``, for a batch of ``factor`` times ``batch_bytes``.

        If no activations give it, all levels are shifted.
        """
        more = (factor - 1.0) * batch_bytes
        return self.changed(*(_peaking(end, more, factor) for end in _ends(peak)))


MemoryChange = Callable[[Memory], Memory]
"""The effect of a change on the memory."""
_CHANGES = {
    "parameters": RecordedLevels.shifted,
    "optimizer": RecordedLevels.shifted,
    "other": RecordedLevels.shifted,
    "gradients": RecordedLevels.more_gradients,
    "activations": RecordedLevels.more_activations,
}


def most_activations_for(levels: RecordedLevels, peak_bytes: float) -> float:
    """The largest factor on the activations with which no level is above this peak."""
    held = levels.activations > _SMALL.value * levels.activations.max()
    if not held.any():
        return 1.0
    rest = levels.live - levels.activations
    return max(0.0, float(np.min((peak_bytes - rest[held]) / levels.activations[held])))


def is_outside_passes(levels: RecordedLevels, peak_bytes: float) -> bool:
    """True if a moment has this peak, or a higher level, without its activations."""
    rest = float((levels.live - levels.activations).max())
    return rest > peak_bytes or isclose(rest, peak_bytes, rel_tol=1e-3)


def _ends(interval: Interval) -> tuple[float, ...]:
    """The value, and the ends if they differ from it."""
    ends = interval.ends
    return ends if interval.low != interval.high else ends[:1]


def _highest(levels: RecordedLevels) -> float:
    return levels.peak().peak_bytes


def _peaking(peak_bytes: float, batch_bytes: float, factor: float) -> LevelChange:
    def change(levels: RecordedLevels) -> RecordedLevels:
        made = levels.shifted(batch_bytes)
        most = most_activations_for(made, peak_bytes)
        # Every smaller factor gives the same peak then, and activations follow the batch.
        made = made.scaled(min(factor, most) if is_outside_passes(made, peak_bytes) else most)
        return made.shifted(peak_bytes - made.peak().peak_bytes)

    return change
