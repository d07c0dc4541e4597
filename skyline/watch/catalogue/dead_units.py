"""Units of a layer with ReLU give zero for every input."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import format_share
from skyline.watch.course import Course
from skyline.watch.layers import shares_of_activations
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class DeadUnits:
    """The share of a layer's units without a positive output in a batch, in each of the last ``samples`` samples."""

    share: float = 0.5
    samples: int = 3

    def check(self, course: Course) -> Alert | None:
        """Refers to the layer before the ReLU."""
        found = shares_of_activations(course, {"relu"}, self.samples, self.share)
        if not found:
            return None
        worst = found[0]
        return Alert(
            f"{format_share(worst.share)} of the units after {worst.name} are dead",
            (
                (
                    f"their ReLU gave zero for the whole batch in each of the last {self.samples} samples; "
                    f"layers concerned: {len(found)}"
                ),
            ),
            worst.line or course.line("backward", "step"),
        )


RULE = DeadUnits
