"""The loss is NaN or infinite."""

from __future__ import annotations

import math

from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class LossNotFinite:
    """An alert from the first window with such a loss."""

    def check(self, course: Course) -> Alert | None:
        """Refers to the backward pass."""
        last = course.windows[-1] if course.windows else None
        if last is None or last.loss is None or last.largest_loss is None:
            return None
        if math.isfinite(last.loss) and math.isfinite(last.largest_loss):
            return None
        finite = [one for one in course.windows if one.loss is not None and math.isfinite(one.loss)]
        known = (
            [f"the last finite loss was {finite[-1].loss:.4g}, up to iteration {finite[-1].iteration}"]
            if finite
            else []
        )
        value = last.largest_loss if math.isfinite(last.loss) else last.loss
        return Alert(
            f"the loss is {value}",
            (*known, *_gradients(course)),
            course.line("backward", "step"),
        )


def _gradients(course: Course) -> list[str]:
    for sample in course.samples:
        for number, norm in sample.gradients:
            if not math.isfinite(norm):
                name = course.parameter(number).name
                return [f"the gradient of {name} was {norm} in iteration {sample.iteration}, the first seen"]
    return []


RULE = LossNotFinite
