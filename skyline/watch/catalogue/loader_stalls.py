"""The training loop waits for its data loader."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms, format_share
from skyline.watch.course import Course
from skyline.watch.rule import Alert


@dataclass(frozen=True, slots=True)
class LoaderStalls:
    """The share of the time in the loader's ``__next__`` over the last ``windows`` windows."""

    share: float = 0.3
    windows: int = 10

    def check(self, course: Course) -> Alert | None:
        """Refers to the line that takes batches from the loader."""
        windows = course.latest_windows(self.windows)
        if len(windows) < self.windows:
            return None
        waited, seconds = sum(one.wait_s for one in windows), sum(one.seconds for one in windows)
        if waited < self.share * seconds:
            return None
        fetches = max(1, sum(one.fetches for one in windows))
        longest = max(one.longest_wait_s for one in windows)
        return Alert(
            f"the loop waits for data {format_share(waited / seconds)} of the time",
            (f"{format_ms(waited / fetches * 1e3)} per batch, at most {format_ms(longest * 1e3)}",),
            course.line("loader"),
        )


RULE = LoaderStalls
