"""A number with its range of uncertainty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the low and high ends of its uncertainty, all in the same unit."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A value without uncertainty, such as a byte count that was traced."""
        return cls(value, value, value)

    @property
    def half_width(self) -> float:
        """Half the distance between low and high: the number after the plus-minus sign."""
        return (self.high - self.low) / 2

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit or size; a factor below zero is not meaningful."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def inverse(self, numerator: float) -> Interval:
        """``numerator / self``, as in turning milliseconds per iteration into samples per second.

        A low end at zero counts as a thousandth of the value: the result stays finite.
        """
        low = max(self.low, self.value / 1000)
        return Interval(numerator / self.value, numerator / self.high, numerator / low)
