"""The loss does not fall, or has risen again."""

from __future__ import annotations

import math

from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course, mean
from skyline.watch.rule import Alert

_START = 3
"""Number of windows that give the loss at the start."""


@dataclass(frozen=True, slots=True)
class LossNotFalling:
    """Compares mean losses: the last ``windows`` windows with the start, and with the lowest earlier mean.

    Runs with several optimizers are ignored: the losses of a GAN need not fall.
    """

    iterations: int = 500
    windows: int = 20
    fall: float = 0.01
    rise: float = 0.5

    def check(self, course: Course) -> Alert | None:
        """Refers to the backward pass."""
        windows = [one for one in course.windows if one.loss is not None and math.isfinite(one.loss)]
        if (
            len(windows) < 2 * self.windows
            or course.iteration < self.iterations
            or windows[-1].optimizers > 1
        ):
            return None
        losses = [one.loss or 0.0 for one in windows]
        now, start = mean(losses[-self.windows :]), mean(course.first_losses[:_START])
        if len(losses) < len(course.windows) or not math.isfinite(start):
            return None
        place = course.line("backward", "step")
        lowest, at = min(
            (mean(losses[begin : begin + self.windows]), windows[begin + self.windows - 1].iteration)
            for begin in range(0, len(losses) - self.windows + 1, self.windows)
        )
        if min(now, lowest) > start - self.fall * abs(start):
            return Alert(
                f"the loss has not fallen in {course.iteration} iterations",
                (f"{start:.4g} at the start, {now:.4g} now",),
                place,
            )
        if now > lowest + self.rise * abs(lowest) and now - lowest > self.rise / 2 * abs(start - lowest):
            return Alert(
                f"the loss has risen from {lowest:.4g} to {now:.4g}",
                (f"{lowest:.4g} was its mean up to iteration {at}, {start:.4g} its value at the start",),
                place,
            )
        return None


RULE = LossNotFalling
