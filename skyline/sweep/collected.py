"""The points of a sweep while it runs: known points, failed points, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from skyline.capture.request import Progress, ProgressCallback
from skyline.errors import SkylineError
from skyline.sweep.point import FailedPoint, SweepPoint, Values


class Collected:
    """Collects points during the sweep."""

    def __init__(
        self,
        count: int,
        budget_s: float,
        progress: ProgressCallback,
        on_failure: Callable[[FailedPoint], None] = lambda failed: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._progress = progress
        self._on_failure = on_failure
        self._clock = clock
        self._began_s = clock()
        self._budget_s = budget_s
        self._points: dict[Values, SweepPoint] = {}
        self._failed: dict[Values, FailedPoint] = {}
        self.first_error: SkylineError | None = None

    def beside(self, count: int) -> Collected:
        """A collector for other points in the remaining time, with the same progress reports."""
        return Collected(count, self.left_s, self._progress)

    @property
    def points(self) -> tuple[SweepPoint, ...]:
        """The points so far, sorted by their values."""
        return tuple(self._points[values] for values in sorted(self._points))

    @property
    def failed(self) -> tuple[FailedPoint, ...]:
        """The values that failed so far."""
        return tuple(self._failed[values] for values in sorted(self._failed))

    @property
    def left(self) -> int:
        """The number of points that are neither known nor failed."""
        return self._count - len(self._points) - len(self._failed)

    def open(self, wanted: Sequence[Values]) -> tuple[Values, ...]:
        """The values of ``wanted`` that are neither known nor failed."""
        return tuple(one for one in wanted if one not in self._points and one not in self._failed)

    @property
    def is_over(self) -> bool:
        """True once the time is spent, if at least one point is known."""
        return bool(self._points) and self.left_s <= 0

    @property
    def left_s(self) -> float:
        """The remaining time in s."""
        return self._began_s + self._budget_s - self._clock()

    @property
    def spent_s(self) -> float:
        """The time so far in s."""
        return self._clock() - self._began_s

    def say(self, words: str) -> None:
        """Reports the work on the next points."""
        done = self._count - self.left
        failed = f", {len(self._failed)} failed" if self._failed else ""
        self._progress(
            Progress("sweep", f"{done} of {self._count}{failed} · {words}", done / max(1, self._count))
        )

    def add(self, point: SweepPoint) -> None:
        """Adds a point, or replaces it by a better one."""
        self._points[point.values] = point

    def fail(self, values: Values, error: SkylineError) -> None:
        """Records that a point failed; the sweep goes on."""
        self.first_error = self.first_error or error
        found = FailedPoint(values, " ".join(error.message.split()))
        self._failed[values] = found
        self._points.pop(values, None)
        self._on_failure(found)
