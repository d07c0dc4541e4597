"""One rank of a distributed run is slower than the others, which wait for it."""

from __future__ import annotations

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms, format_share
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class Straggler:
    """Compares a rank's time before backward passes, in which ranks do not wait for each other, with the others'."""

    slower: float = 0.3
    share: float = 0.05
    windows: int = 10

    def check(self, course: Course) -> Alert | None:
        """Needs the difference to be ``slower`` than the others, and ``share`` of an iteration."""
        others = [self._own_s(peer) for peer in course.peers if peer is not course]
        known = [one for one in others if one is not None]
        own = self._own_s(course)
        if own is None or not known or len(known) < len(others):
            return None
        usual = median(known)
        iteration = median([one.iteration_s for one in course.latest_windows(self.windows)])
        if own < usual * (1 + self.slower) or own - usual < self.share * iteration:
            return None
        waits = course.latest_windows(self.windows)
        waited = sum(one.wait_s for one in waits) / sum(one.iterations for one in waits)
        return Alert(
            f"rank {course.rank} needs {format_share(own / usual - 1)} longer than the others, which wait for it",
            (
                f"{format_ms(own * 1e3)} per iteration until its backward pass, {format_ms(usual * 1e3)} on the others",
                f"{format_ms(waited * 1e3)} of that is waiting for data",
            ),
            course.line("loader", "backward") if waited > own / 2 else course.line("backward"),
        )

    def _own_s(self, course: Course) -> float | None:
        windows = course.latest_windows(self.windows)
        if len(windows) < self.windows:
            return None
        return sum(one.own_s for one in windows) / sum(one.iterations for one in windows)


RULE = Straggler
