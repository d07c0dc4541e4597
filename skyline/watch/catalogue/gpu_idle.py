"""The GPU has no work between two iterations."""

from __future__ import annotations

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms, format_share
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class GpuIdle:
    """The median share of an iteration between the end of its work on the device and the next batch."""

    share: float = 0.3
    windows: int = 10

    def check(self, course: Course) -> Alert | None:
        """Refers to the loader; idle time inside forward and backward passes is not seen."""
        known = [one for one in course.latest_windows(2 * self.windows) if one.idle_s is not None]
        if len(known) < self.windows:
            return None
        idle = median([one.idle_s or 0.0 for one in known])
        iteration = median([one.typical_s for one in known])
        if idle < self.share * iteration:
            return None
        return Alert(
            f"{known[-1].device} has no work for {format_share(idle / iteration)} of an iteration",
            (
                (
                    f"{format_ms(idle * 1e3)} of {format_ms(iteration * 1e3)} pass between the end of its "
                    f"work and the next batch, by events on the device in {len(known)} iterations"
                ),
            ),
            course.line("loader", "step"),
        )


RULE = GpuIdle
