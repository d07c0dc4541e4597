"""Iterations take longer than they did before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from skyline.interval import median
from skyline.units import format_ms, format_share
from skyline.watch.course import Course
from skyline.watch.records import Window
from skyline.watch.rule import Alert

_WARM_UP = 4
"""Windows left out at the start."""


@dataclass(frozen=True, slots=True)
class ThroughputFalls:
    """Compares the last ``windows`` windows with the fastest earlier ones of that number, by their medians."""

    slower: float = 0.3
    windows: int = 20

    def check(self, course: Course) -> Alert | None:
        """Refers to the loader if the waits for data grew as much, else to the optimizer step."""
        known = list(islice(course.windows, _WARM_UP, None))
        if len(known) < 2 * self.windows:
            return None
        starts = range(len(known) - self.windows, -1, -self.windows)
        blocks = [known[start : start + self.windows] for start in starts]
        times = [median([window.iteration_s for window in block]) for block in blocks]
        now, before = times[0], min(times[1:])
        if now < before * (1 + self.slower):
            return None
        waits = [
            sum(window.wait_s for window in block) / sum(window.iterations for window in block)
            for block in blocks
        ]
        fastest = times.index(before, 1)
        by_data = waits[0] - waits[fastest]
        computed = [_computed_ms(blocks[0]), _computed_ms(blocks[fastest])]
        return Alert(
            f"iterations take {format_ms(now * 1e3)}, {format_share(now / before - 1)} more than before",
            (
                f"{format_ms(before * 1e3)} in iterations up to {blocks[fastest][-1].iteration}",
                f"waiting for data accounts for {format_ms(max(by_data, 0.0) * 1e3)} of the difference",
                *(
                    (
                        f"processor time of its thread: {format_ms(computed[0])}, {format_ms(computed[1])} before",
                    )
                    if all(computed)
                    else ()
                ),
            ),
            course.line("loader", "step")
            if by_data > (now - before) / 2
            else course.line("step", "backward"),
        )


def _computed_ms(block: list[Window]) -> float:
    """Processor time of an iteration in ms; 0 if unknown. If it is as before, waits or other programs are the cause."""
    return 1e3 * median([(window.processor_s or 0.0) / window.iterations for window in block])


RULE = ThroughputFalls
