"""The memory of the process grows steadily."""

from __future__ import annotations

import itertools

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.units import format_bytes
from skyline.watch.course import Course, MemoryLevel
from skyline.watch.rule import Alert

_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class MemoryGrows:
    """The medians of eight parts of the last ``readings`` readings grow, by ``share`` and ``mb`` in total.

    The first readings count only while there are no later ones, since memory grows at every start.
    """

    share: float = 0.1
    mb: float = 50.0
    readings: int = 40

    def check(self, course: Course) -> Alert | None:
        """Refers to the backward pass: memory that grows is often a graph that is kept."""
        levels = [level for level in course.memory if level.where == course.memory[-1].where][
            -self.readings :
        ]
        if len(levels) < self.readings:
            return None
        size = len(levels) // _BLOCKS
        blocks = [
            median([float(level.used_bytes) for level in levels[start : start + size]])
            for start in range(0, size * _BLOCKS, size)
        ]
        grown = blocks[-1] - blocks[0]
        steps = [after > before for before, after in itertools.pairwise(blocks)]
        if not all(steps) or grown < max(self.share * blocks[0], self.mb * 1e6):
            return None
        last, iterations = levels[-1], levels[-1].iteration - levels[0].iteration
        return Alert(
            f"memory in use on the {last.where} grew by {format_bytes(grown)} in {iterations} iterations",
            (
                f"from {format_bytes(blocks[0])} to {format_bytes(blocks[-1])}, a rise in each of {_BLOCKS} parts",
                *_until_full(last, grown, iterations),
            ),
            course.line("backward", "step"),
        )


def _until_full(last: MemoryLevel, grown: float, iterations: int) -> tuple[str, ...]:
    if last.free_bytes is None or not iterations:
        return ()
    rest = last.free_bytes / (grown / iterations)
    return (f"{format_bytes(last.free_bytes)} are free: enough for about {rest:.0f} iterations at this rate",)


RULE = MemoryGrows
