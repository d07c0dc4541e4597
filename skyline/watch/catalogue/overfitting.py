"""The validation loss rises while the training loss falls."""

from __future__ import annotations

import math

from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course, mean
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class Overfitting:
    """The last ``validations`` losses without gradients are above the lowest by ``rise``.

    A validation loss is the result of a loss function of ``torch.nn`` while gradients are off.
    """

    rise: float = 0.02
    validations: int = 3

    def check(self, course: Course) -> Alert | None:
        """Refers to the line that computes the validation loss."""
        known = [one for one in course.validations if math.isfinite(one.loss)]
        if len(known) <= self.validations:
            return None
        best = min(known, key=lambda one: one.loss)
        later = known[-self.validations :]
        if best in later or min(one.loss for one in later) <= best.loss + self.rise * abs(best.loss):
            return None
        then = self._training_loss(course, best.iteration)
        now = self._training_loss(course, known[-1].iteration)
        if not now < then:
            return None
        return Alert(
            f"the validation loss rose from {best.loss:.4g} to {known[-1].loss:.4g}",
            (
                f"its lowest value was after iteration {best.iteration}; {self.validations} later ones are higher",
                f"the training loss fell from {then:.4g} to {now:.4g} meanwhile",
            ),
            course.line("validation"),
        )

    def _training_loss(self, course: Course, iteration: int) -> float:
        """The mean of the windows nearest to an iteration; NaN if there is none."""
        near = sorted(
            (one for one in course.windows if one.loss is not None),
            key=lambda one: abs(one.iteration - iteration),
        )
        return mean(one.loss or 0.0 for one in near[:3])


RULE = Overfitting
