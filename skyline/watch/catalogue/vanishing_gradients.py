"""The gradients of a layer are vanishingly small compared with another layer's."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.watch.course import Course
from skyline.watch.records import Sample
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class VanishingGradients:
    """The root mean square of a weight's gradient relative to the largest one, in the last ``samples`` samples.

    Biases are ignored: a bias before a normalization has no gradient by design.
    """

    ratio: float = 1e-6
    samples: int = 4

    def check(self, course: Course) -> Alert | None:
        """Refers to the module with the smallest gradient."""
        latest = course.latest_samples(self.samples)
        if len(latest) < self.samples:
            return None
        each = [self._vanished(course, sample) for sample in latest]
        always = set(each[0]).intersection(*each[1:])
        if not always:
            return None
        worst = min(always, key=lambda number: each[-1][number])
        row, more = course.parameter(worst), len(always) - 1
        others = f" and of {more} other weights" if more else ""
        return Alert(
            f"the gradient of {row.name}{others} has vanished",
            (
                (
                    f"its root mean square is {each[-1][worst]:.1e} times the largest of all weights, in each of the "
                    f"last {self.samples} samples"
                ),
            ),
            row.line or course.line("backward", "step"),
        )

    def _vanished(self, course: Course, sample: Sample) -> dict[int, float]:
        sizes = {
            number: norm / course.parameter(number).elements ** 0.5
            for number, norm in sample.gradients
            if course.parameter(number).dimensions > 1
        }
        largest = max(sizes.values(), default=0.0)
        if not 0 < largest < float("inf"):
            return {}
        return {number: size / largest for number, size in sizes.items() if size < self.ratio * largest}


RULE = VanishingGradients
