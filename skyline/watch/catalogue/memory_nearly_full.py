"""The memory of the device or the host is nearly full."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import format_bytes, format_share
from skyline.watch.course import Course, latest
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class MemoryNearlyFull:
    """Less than ``free`` of the memory is free in each of the last ``readings`` readings, whoever uses the rest."""

    free: float = 0.05
    readings: int = 3

    def check(self, course: Course) -> Alert | None:
        """Refers to the backward pass, at which memory peaks."""
        for where in {level.where for level in latest(course.memory, 2 * self.readings)}:
            levels = [level for level in course.memory if level.where == where][-self.readings :]
            rest = [
                level.free_bytes / level.total_bytes
                for level in levels
                if level.free_bytes is not None and level.total_bytes
            ]
            if len(rest) == self.readings and max(rest) < self.free:
                last = levels[-1]
                return Alert(
                    f"{format_share(1 - rest[-1])} of the memory of the {where} is in use",
                    (
                        (
                            f"{format_bytes(last.free_bytes or 0)} of {format_bytes(last.total_bytes or 0)} are free; "
                            f"the run uses {format_bytes(last.used_bytes)}"
                        ),
                    ),
                    course.line("backward", "step"),
                )
        return None


RULE = MemoryNearlyFull
