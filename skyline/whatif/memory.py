"""The peak memory of a changed script, by owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from skyline.interval import Interval
from skyline.memory.peak import MemoryBreakdown


@dataclass(frozen=True, slots=True)
class Memory:
    """Who owns how many bytes at the peak; the owners are those of ``MemoryBreakdown``."""

    parameters: Interval
    gradients: Interval
    optimizer: Interval
    activations: Interval
    other: Interval

    @classmethod
    def of(cls, peak: MemoryBreakdown) -> Memory:
        """The recorded peak, known to the byte."""
        owners = (peak.parameters, peak.gradients, peak.optimizer, peak.activations, peak.other)
        return cls(*(Interval.exact(float(size)) for size in owners))

    @property
    def peak_bytes(self) -> Interval:
        """The sum over the owners. Their ranges add up: they come from the same few assumptions."""
        owners: list[Interval] = [getattr(self, one.name) for one in fields(self)]
        return Interval(
            sum(one.value for one in owners), sum(one.low for one in owners), sum(one.high for one in owners)
        )

    def with_activations(self, factor: Interval) -> Memory:
        """With the activations times a factor."""
        return replace(self, activations=product(self.activations, factor))

    def less(self, owner: str, size_bytes: Interval) -> Memory:
        """With so many bytes less of an owner (``activations``, …), and never less than none."""
        had: Interval = getattr(self, owner)
        left = Interval(
            max(0.0, had.value - size_bytes.value),
            max(0.0, had.low - size_bytes.high),
            max(0.0, had.high - size_bytes.low),
        )
        return replace(self, **{owner: left})

    def more(self, owner: str, size_bytes: Interval) -> Memory:
        """With so many bytes more of an owner."""
        had: Interval = getattr(self, owner)
        return replace(
            self,
            **{
                owner: Interval(
                    had.value + size_bytes.value, had.low + size_bytes.low, had.high + size_bytes.high
                )
            },
        )

    def to_peak(self, peak: Interval, batch_bytes: float, factor: float) -> Memory:
        """With the activations such that the whole has this peak, the batch being ``factor`` times ``batch_bytes``.

        Memory that stays between iterations (parameters, gradients, optimizer state, and of the rest all but the
        batch) is kept as long as it fits.
        """
        other = self.other.value + (factor - 1.0) * min(batch_bytes, self.other.value)
        kept = self.parameters.value + self.gradients.value + self.optimizer.value + other
        room = Interval(*(max(0.0, end - kept) for end in (peak.value, peak.low, peak.high)))
        shrunk = min(1.0, peak.value / kept) if kept > 0 else 1.0
        return Memory(
            self.parameters.scaled(shrunk),
            self.gradients.scaled(shrunk),
            self.optimizer.scaled(shrunk),
            room,
            Interval.exact(other * shrunk),
        )


MemoryChange = Callable[[Memory], Memory]
"""The effect of a change on the memory."""


def product(first: Interval, second: Interval) -> Interval:
    """Of two amounts that are not negative."""
    return Interval(first.value * second.value, first.low * second.low, first.high * second.high)
