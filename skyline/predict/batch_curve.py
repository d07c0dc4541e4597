"""Time and memory as functions of the batch size, from the sizes that were measured."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.part import Part, part_shares
from skyline.interval import Interval
from skyline.memory.growth import Growth, growth
from skyline.predict.reading import read
from skyline.spread import central_range, interval_of, median
from skyline.trace.profile import Profile
from skyline.trace.trial import Trial, batch_trials

_UNSTEADY = 1.5
"""A point whose central samples differ by more than this was disturbed, not measured."""
_AGREES = 0.01
"""The recorded allocations tell of other sizes where they reproduce all measured peaks this closely."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured batch size: iteration time over that of the base, the share of each part, the peak."""

    batch_size: int
    ratio: Interval
    shares: tuple[tuple[Part, float], ...]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """What is known about other batch sizes. ``base`` is the script's own, None if it could not be found.

    ``reason`` says why nothing is known beyond the base, empty where something is. ``growth`` is how the recorded
    allocations go along with the batch, None where they do not explain the measured peaks.
    """

    base: int | None
    points: tuple[MeasuredPoint, ...]
    reason: str
    notes: tuple[str, ...] = ()
    growth: Growth | None = None
    large_block_ratio: float = 0.0
    """What a byte taken in a block too large to be kept adds to the iteration, over that at the base."""

    def knows(self, batch_size: int) -> bool:
        """Whether anything can be said about this size."""
        return batch_size >= 1 and (batch_size == self.base or len(self.points) >= 2)

    def measured(self, batch_size: int) -> bool:
        """Whether this very size was run."""
        return batch_size == self.base or any(point.batch_size == batch_size for point in self.points)

    def extrapolated(self, batch_size: int) -> bool:
        """Whether this size lies outside the range of those that were run."""
        return not self.measured(batch_size) and not (
            self.points[0].batch_size < batch_size < self.points[-1].batch_size
        )

    def ratio(self, batch_size: int) -> Interval:
        """Iteration time at this size over that at the base.

        Raises:
            ValueError: nothing is known about this size.
        """
        if batch_size == self.base:
            return Interval.exact(1.0)
        if not self.knows(batch_size):
            raise ValueError(self.reason or f"nothing is known about batch size {batch_size}")
        if self.measured(batch_size):
            return next(point.ratio for point in self.points if point.batch_size == batch_size)
        # The allocator's step is no part of the lines: it comes on top, where a size has such blocks.
        samples = [
            (point.batch_size, _moved(point.ratio, -self._for_large_blocks(point.batch_size).value))
            for point in self.points
        ]
        found, step = read(samples, batch_size), self._for_large_blocks(batch_size)
        return Interval(found.value + step.value, found.low + step.low, found.high + step.high)

    def _for_large_blocks(self, batch_size: int) -> Interval:
        """Between nothing and all of it: libraries keep memory that is not seen here, in which some find room."""
        if self.growth is None or not self.large_block_ratio or not self.base:
            return Interval.exact(0.0)
        most = self.large_block_ratio * self.growth.large_bytes(batch_size / self.base)
        return Interval(most / 2, 0.0, most)

    def part_factors(self, batch_size: int) -> dict[Part, float]:
        """How many times as long each part takes as at the base.

        Weighted with the base's shares they sum to ``ratio``; a part that could not be told apart gets ``ratio``.

        Raises:
            ValueError: nothing is known about this size.
        """
        total = self.ratio(batch_size).value
        base = next(point for point in self.points if point.batch_size == self.base)
        # The time of each part, in units of the base iteration, is read off its own curve and made to sum up.
        parts = {part: self._part_time(part, batch_size) for part, share in base.shares if share > 0}
        correction = total / (sum(parts.values()) or 1.0)
        factors = {part: parts[part] * correction / share for part, share in base.shares if share > 0}
        return {part: factors.get(part, total) for part in Part}

    def peak_bytes(self, batch_size: int) -> Interval:
        """Peak of live tensor memory at this size: exact where measured.

        Elsewhere by the recorded allocations, if they explain what was measured: the peak may move from the
        optimizer's step to the forward pass as the batch grows, which no line through measured peaks can show. Else on
        straight lines; beyond the measured sizes on that of the two nearest ones.

        Raises:
            ValueError: nothing is known about this size.
        """
        if not self.knows(batch_size):
            raise ValueError(self.reason or f"nothing is known about batch size {batch_size}")
        samples = [(point.batch_size, Interval.exact(float(point.peak_bytes))) for point in self.points]
        if batch_size > samples[-1][0]:
            samples = samples[-2:]
        elif batch_size < samples[0][0]:
            samples = samples[:2]
        by_lines = read(samples, batch_size)
        if self.growth is None or self.measured(batch_size):
            return by_lines
        value = self.growth.peak_bytes(batch_size / (self.base or batch_size))
        return Interval(value, min(value, by_lines.low), max(value, by_lines.high))

    def _part_time(self, part: Part, batch_size: int) -> float:
        samples = [
            (point.batch_size, Interval.exact(point.ratio.value * dict(point.shares).get(part, 0.0)))
            for point in self.points
        ]
        return read(samples, batch_size).value


def batch_curve(profile: Profile) -> BatchCurve:
    """The curve of a profile: its points, each as the median of its round-by-round ratios to the base."""
    base = profile.batch_size
    if base is None:
        return BatchCurve(None, (), "the script's batch size was not found")
    trials = batch_trials(profile.trials)
    measured = {size: _measured(size, trial) for size, trial in trials.items()}
    shares = tuple(part_shares(profile.times).items())
    measured[base] = MeasuredPoint(base, _at_base(profile), shares, profile.peak_bytes)
    points = tuple(measured[size] for size in sorted(measured))
    notes = tuple(
        f"batch size {size}: its rounds differ by more than {_UNSTEADY:g} times, "
        "the machine was busy with something else"
        for size, trial in trials.items()
        if profile.prediction is None and len(trial.ratios) > 1 and central_range(trial.ratios) > _UNSTEADY
    )
    reason = "" if len(points) > 1 else "no other batch size was measured"
    return BatchCurve(
        base, points, reason, notes, _explaining(profile, base, points), _large_block_ratio(profile)
    )


def _large_block_ratio(profile: Profile) -> float:
    """By byte, on the iteration time of the base."""
    if profile.prediction is not None or not profile.times.steps_ms:
        return 0.0
    return profile.large_block_us_per_mb / 1e9 / median(profile.times.steps_ms)


def _moved(interval: Interval, by: float) -> Interval:
    return Interval(interval.value + by, interval.low + by, interval.high + by)


def _explaining(profile: Profile, base: int, points: tuple[MeasuredPoint, ...]) -> Growth | None:
    """How the recorded allocations grow, if that gives the measured peak of every size."""
    if len(points) < 2:
        return None
    found = growth(profile.memory, profile.trace.allocations, profile.peak_bytes)
    if found is None:
        return None
    explained = all(
        abs(found.peak_bytes(point.batch_size / base) - point.peak_bytes) <= _AGREES * point.peak_bytes
        for point in points
    )
    return found if explained else None


def _at_base(profile: Profile) -> Interval:
    """The base over itself: exact where times were measured side by side.

    Predicted times carry their whole uncertainty, so that the base's counts for the sizes around it too.
    """
    if profile.prediction is None:
        return Interval.exact(1.0)
    said = profile.prediction.iteration_ms
    return said.scaled(1 / said.value) if said.value > 0 else Interval.exact(1.0)


def _measured(batch_size: int, trial: Trial) -> MeasuredPoint:
    shares = tuple(part_shares(trial.times).items())
    return MeasuredPoint(batch_size, interval_of(trial.ratios), shares, trial.peak_bytes or 0)
