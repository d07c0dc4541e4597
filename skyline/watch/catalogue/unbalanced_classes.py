"""Some classes are much rarer among the targets than others."""

from __future__ import annotations

from collections import Counter

from skyline.lazy_dataclass import dataclass
from skyline.units import format_share
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class UnbalancedClasses:
    """The most frequent class relative to the rarest, over the targets of the sampled iterations.

    Losses with class weights and targets that are parts of sequences, as of a language model, are ignored.
    """

    ratio: float = 10.0
    targets: int = 500
    per_class: int = 20
    most_classes: int = 100

    def check(self, course: Course) -> Alert | None:
        """Refers to the line that takes batches from the loader."""
        samples = [one for one in course.samples if one.targets and not one.weighted]
        if not samples:
            return None
        classes = samples[-1].classes
        counts = Counter(target for one in samples for target in one.targets if 0 <= target < classes)
        total = sum(counts.values())
        if classes > self.most_classes or total < max(self.targets, self.per_class * classes):
            return None
        most, frequent = max((counts[one], one) for one in range(classes))
        least, rare = min((counts[one], one) for one in range(classes))
        if most < self.ratio * max(least, 1):
            return None
        return Alert(
            f"class {frequent} makes up {format_share(most / total)} of the targets, class {rare} "
            f"{format_share(least / total)}",
            (f"of {total} targets in {len(samples)} sampled iterations; {classes} classes",),
            course.line("loader", "backward"),
        )


RULE = UnbalancedClasses
