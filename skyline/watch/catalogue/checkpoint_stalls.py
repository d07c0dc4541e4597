"""Training stands still while checkpoints are written."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms, format_share
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class CheckpointStalls:
    """The share of the time since the start in ``torch.save``, from the second save on."""

    share: float = 0.05
    saves: int = 2

    def check(self, course: Course) -> Alert | None:
        """Refers to the line that saves."""
        if len(course.saves) < self.saves or not course.elapsed_s:
            return None
        saving = sum(one.seconds for one in course.saves)
        # Windows contain the saves that happened in them; the latest window may not have ended yet.
        elapsed = max(course.elapsed_s, saving)
        if saving < self.share * elapsed:
            return None
        return Alert(
            f"saving takes {format_share(saving / elapsed)} of the time",
            (
                (
                    f"{len(course.saves)} calls of torch.save took {format_ms(saving * 1e3)}, at most "
                    f"{format_ms(max(one.seconds for one in course.saves) * 1e3)} each"
                ),
            ),
            course.line("save"),
        )


RULE = CheckpointStalls
