"""The gradients become much larger than before, or infinite."""

from __future__ import annotations

import math

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course
from skyline.watch.rule import Alert

_LEAST_BEFORE = 5


@dataclass(frozen=True, slots=True)
class ExplodingGradients:
    """Compares the norm of all gradients with its median over the previous ``samples`` samples."""

    factor: float = 100.0
    samples: int = 50

    def check(self, course: Course) -> Alert | None:
        """Refers to the module with the largest gradient, else to the backward pass."""
        known = [(sample, norm) for sample in course.samples if (norm := sample.gradient_norm) is not None][
            -self.samples - 1 :
        ]
        if not known:
            return None
        sample, norm = known[-1]
        before = [value for _, value in known[:-1] if math.isfinite(value)]
        usual = median(before) if len(before) >= _LEAST_BEFORE else math.inf
        if math.isfinite(norm) and not norm > self.factor * usual:
            return None
        evidence: list[str] = []
        if math.isfinite(usual):
            evidence.append(f"the median of {len(before)} samples before is {usual:.3g}")
        place = None
        if sample.gradients:
            number, largest = max(sample.gradients, key=lambda row: (not math.isfinite(row[1]), row[1]))
            row = course.parameter(number)
            place = row.line
            evidence.append(f"the largest is that of {row.name}, {largest:.3g}")
        clipped = " before clipping" if sample.clipped is not None else ""
        return Alert(
            f"the norm of the gradients is {norm:.3g}{clipped} in iteration {sample.iteration}",
            tuple(evidence),
            place or course.line("backward", "step"),
        )


RULE = ExplodingGradients
