"""Outputs of Sigmoid or Tanh lie where these functions are flat."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import format_share
from skyline.watch.course import Course
from skyline.watch.layers import shares_of_activations
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class SaturatedActivations:
    """The share of outputs with a slope below 1 % of the steepest, in each of the last ``samples`` samples.

    Output layers are ignored: a confident classifier saturates its last function.
    """

    share: float = 0.8
    samples: int = 3

    def check(self, course: Course) -> Alert | None:
        """Refers to the layer before the function."""
        found = shares_of_activations(course, {"sigmoid", "tanh"}, self.samples, self.share)
        if not found:
            return None
        worst = found[0]
        return Alert(
            f"{format_share(worst.share)} of the outputs of {worst.kind} after {worst.name} are saturated",
            (f"in each of the last {self.samples} samples; layers concerned: {len(found)}",),
            worst.line or course.line("backward", "step"),
        )


RULE = SaturatedActivations
