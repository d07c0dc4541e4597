"""Weights of an optimizer do not change, or never get a gradient."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course
from skyline.watch.records import Sample
from skyline.watch.rule import Alert

_LEAST_GRADIENT = 1e-5
"""The least gradient that counts, relative to the largest: a bias before a normalization has only rounding errors."""


@dataclass(frozen=True, slots=True)
class WeightsNotUpdating:
    """The change of a weight by a step relative to its norm, in each of the last ``samples`` samples.

    Only weights with a gradient count: rows of an embedding that a batch does not use do not change.
    """

    ratio: float = 1e-8
    samples: int = 5

    def check(self, course: Course) -> Alert | None:
        """Refers to the module of the weight."""
        latest = course.latest_samples(self.samples)
        if len(latest) < self.samples:
            return None
        without = _in_all([set(sample.missing) for sample in latest])
        if without:
            row = course.parameter(min(without))
            return Alert(
                f"{row.name} never gets a gradient",
                (f"in the last {self.samples} samples; parameters concerned: {len(without)}",),
                row.line or course.line("step"),
            )
        still = _in_all([self._unchanged(sample) for sample in latest])
        if not still:
            return None
        row = course.parameter(min(still))
        change = max(change for number, change, _, _ in latest[-1].updates if number in still)
        return Alert(
            f"steps of the optimizer do not change {row.name}",
            (
                (
                    f"the norm of its change is at most {change:.1e} although its gradient is not zero, in the last "
                    f"{self.samples} samples; parameters concerned: {len(still)}"
                ),
            ),
            course.line("step") or row.line,
        )

    def _unchanged(self, sample: Sample) -> set[int]:
        least = _LEAST_GRADIENT * max((row[3] for row in sample.updates), default=0.0)
        return {
            number
            for number, change, weight, gradient in sample.updates
            if gradient > least and change <= self.ratio * weight
        }


def _in_all(found: list[set[int]]) -> set[int]:
    return found[0].intersection(*found[1:])


RULE = WeightsNotUpdating
