"""Time and memory as functions of the batch size, from the measured sizes, and the sizes worth showing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from skyline.errors import RewriteRefused
from skyline.graph.task import Part, part_shares
from skyline.interval import Interval, central_range, interval_of, median
from skyline.lazy_dataclass import dataclass
from skyline.memory.growth import Growth, growth
from skyline.predict.interpolation import interpolated
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.trace.trial import Choices, Trial, batch_trials

_UNSTEADY = 1.5
"""Factor between the central samples of a point above which the measurement counts as disturbed."""
_AGREES = 0.01
"""Relative accuracy with which the recorded allocations must reproduce all measured peaks to be used."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured batch size: iteration time relative to the base, the share of each part, and the peak memory.

    ``peak_bytes`` is None if only times were measured.
    """

    batch_size: int
    ratio: Interval
    shares: tuple[tuple[Part, float], ...]
    peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """Time and memory at other batch sizes. ``base`` is the script's own size; None if unknown.

    ``reason`` explains why only the base is known; empty otherwise. ``growth`` is the growth of the recorded
    allocations with the batch; None if they do not explain the measured peaks.
    """

    base: int | None
    points: tuple[MeasuredPoint, ...]
    reason: str
    notes: tuple[str, ...] = ()
    growth: Growth | None = None
    large_block_ratio: float = 0.0
    """Relative increase of the iteration time per byte in blocks too large for the allocator's cache."""

    def knows(self, batch_size: int) -> bool:
        """True if the curve covers this size."""
        return batch_size >= 1 and (batch_size == self.base or len(self.points) >= 2)

    def measured(self, batch_size: int) -> bool:
        """True if this size was run."""
        return batch_size == self.base or any(point.batch_size == batch_size for point in self.points)

    def extrapolated(self, batch_size: int) -> bool:
        """True if this size is outside the range of the measured sizes."""
        return not self.measured(batch_size) and not (
            self.points[0].batch_size < batch_size < self.points[-1].batch_size
        )

    def ratio(self, batch_size: int) -> Interval:
        """Iteration time at this size relative to the base.

        Raises:
            ValueError: the size is unknown.
        """
        if batch_size == self.base:
            return Interval.exact(1.0)
        if not self.knows(batch_size):
            raise ValueError(self.reason or f"batch size {batch_size} is outside the curve")
        if self.measured(batch_size):
            return next(point.ratio for point in self.points if point.batch_size == batch_size)
        # The measured lines exclude the cost of the allocator's large blocks. It is added for sizes with such
        # blocks.
        samples = [
            (one.batch_size, one.ratio.plus(Interval.exact(-self._for_large_blocks(one.batch_size).value)))
            for one in self.points
        ]
        found, step = interpolated(samples, batch_size), self._for_large_blocks(batch_size)
        return found.plus(step)

    def _for_large_blocks(self, batch_size: int) -> Interval:
        """Cost of large blocks, from zero to the full cost: some blocks find space in libraries' unrecorded memory."""
        if self.growth is None or not self.large_block_ratio or not self.base:
            return Interval.exact(0.0)
        most = self.large_block_ratio * self.growth.large_bytes(batch_size / self.base)
        return Interval(most / 2, 0.0, most)

    def part_factors(self, batch_size: int) -> dict[Part, float]:
        """Time of each part relative to the base.

        Weighted with the shares at the base, the factors sum to ``ratio``. A part without a separate measurement gets
        ``ratio``.

        Raises:
            ValueError: the size is unknown.
        """
        total = self.ratio(batch_size).value
        base = next(point for point in self.points if point.batch_size == self.base)
        # The time of each part, relative to the base iteration, is read from its own curve; then all are normalised.
        parts = {part: self._part_time(part, batch_size) for part, share in base.shares if share > 0}
        correction = total / (sum(parts.values()) or 1.0)
        factors = {part: parts[part] * correction / share for part, share in base.shares if share > 0}
        return {part: factors.get(part, total) for part in Part}

    def peak_bytes(self, batch_size: int) -> Interval:
        """Peak of live tensor memory at this size, in bytes: exact if measured.

        Other sizes follow from the recorded allocations if these explain the measured peaks. The peak may move from the
        optimizer step to the forward pass as the batch grows, which no line through measured peaks can represent.
        Otherwise the peak is interpolated linearly; beyond the measured sizes, on the line through the two nearest
        ones. If only the base was measured, the peak lies between that of the base and one in proportion to the size.

        Raises:
            ValueError: the size is unknown.
        """
        if not self.knows(batch_size):
            raise ValueError(self.reason or f"batch size {batch_size} is outside the curve")
        known = {one.batch_size: float(one.peak_bytes) for one in self.points if one.peak_bytes is not None}
        if batch_size in known:
            return Interval.exact(known[batch_size])
        factor = batch_size / (self.base or batch_size)
        if len(known) == 1:
            (base,) = known.values()
            by_lines = Interval(base * (1 + factor) / 2, *sorted((base, base * factor)))
        else:
            by_lines = _by_lines(known, batch_size)
        if self.growth is None:
            return by_lines
        value = self.growth.peak_bytes(factor)
        return Interval(value, min(value, by_lines.low), max(value, by_lines.high))

    def _part_time(self, part: Part, batch_size: int) -> float:
        samples = [
            (point.batch_size, Interval.exact(point.ratio.value * dict(point.shares).get(part, 0.0)))
            for point in self.points
        ]
        return interpolated(samples, batch_size).value


def batch_curve(profile: Profile) -> BatchCurve:
    """Build the curve of a profile; each point is the median of its per-round ratios to the base."""
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
    """Cost of large blocks per byte, relative to the iteration time of the base."""
    if profile.prediction is not None or not profile.times.steps_ms:
        return 0.0
    return profile.large_block_us_per_mb / 1e9 / median(profile.times.steps_ms)


def _by_lines(peaks: Mapping[int, float], batch_size: int) -> Interval:
    samples = [(size, Interval.exact(peak)) for size, peak in sorted(peaks.items())]
    if batch_size > samples[-1][0]:
        samples = samples[-2:]
    elif batch_size < samples[0][0]:
        samples = samples[:2]
    return interpolated(samples, batch_size)


def _explaining(profile: Profile, base: int, points: tuple[MeasuredPoint, ...]) -> Growth | None:
    """The growth of the recorded allocations, if it reproduces the measured peak of every size."""
    if len(points) < 2:
        return None
    found = growth(profile.memory, profile.trace.allocations, profile.peak_bytes)
    if found is None:
        return None
    peaks = {one.batch_size: one.peak_bytes for one in points if one.peak_bytes is not None}
    explained = all(
        abs(found.peak_bytes(size / base) - peak) <= _AGREES * peak for size, peak in peaks.items()
    )
    return found if explained else None


def _at_base(profile: Profile) -> Interval:
    """The ratio of the base to itself: exact for measured times.

    Predicted times carry their whole uncertainty, so that neighbouring sizes include it.
    """
    if profile.prediction is None:
        return Interval.exact(1.0)
    said = profile.prediction.iteration_ms
    return said.scaled(1 / said.value) if said.value > 0 else Interval.exact(1.0)


def _measured(batch_size: int, trial: Trial) -> MeasuredPoint:
    shares = tuple(part_shares(trial.times).items())
    return MeasuredPoint(batch_size, interval_of(trial.ratios), shares, trial.peak_bytes)


_DOWN, _UP = 4, 8
"""Smallest and largest displayed size, as factors of the script's own size."""


def sizes_to_show(base: int, measured: Iterable[int], largest: int | None = None) -> tuple[int, ...]:
    """Powers of two and doublings of ``base``, from a quarter to eight times it, and all measured sizes.

    ``largest`` (such as the size of the data set) limits all but the base and the measured sizes.
    """
    lowest, highest = max(1, base // _DOWN), base * _UP
    wanted = {2**k for k in range(highest.bit_length() + 1)} | {base * 2**k for k in range(4)}
    wanted |= {base // 2, base // 4, base * 3 // 2}
    bound = highest if largest is None else min(highest, largest)
    return tuple(sorted({size for size in wanted if lowest <= size <= bound} | {base} | set(measured)))


NOTE = "The curve is from the previous run; it is being measured again."


def with_carried_curve(profile: Profile, before: Profile | None) -> Profile:
    """``profile`` with the curve of ``before``, if the two differ only in batch size.

    Every point of the curve is a ratio to its own base: the ratios are divided by the old curve's ratio at the new
    batch size. If the scripts differ otherwise, or without a curve, the profile is unchanged.
    """
    size = profile.batch_size
    if before is None or before.batch_size is None or size is None:
        return profile
    known = batch_trials(before.trials)
    if (
        before.prediction is not None
        or profile.prediction is not None
        or batch_trials(profile.trials)
        or not known
        or not _same_but_for_size(profile, before)
    ):
        return profile
    base = batch_curve(before).ratio(size).value
    own = Trial(Choices(batch_size=before.batch_size), before.times, (1.0, 1.0), peak_bytes=before.peak_bytes)
    carried = tuple(
        replace(trial, ratios=tuple(ratio / base for ratio in trial.ratios), operators=(), python_us={})
        for other, trial in sorted({**known, before.batch_size: own}.items())
        if other != size
    )
    return replace(profile, trials=(*profile.trials, *carried), notes=(*profile.notes, NOTE))


def _same_but_for_size(profile: Profile, before: Profile) -> bool:
    """True if writing the older batch size into the newer sources gives the older sources."""
    knob, old_knob = profile.knobs.best, before.knobs.best
    if knob is None or old_knob is None or knob.span.file != old_knob.span.file:
        return False
    if profile.arguments != before.arguments or profile.interpreter != before.interpreter:
        return False
    older = {source.path: source.text for source in before.sources}
    newer = {source.path: source.text for source in profile.sources}
    # The script itself is the first source, with its links resolved.
    place = profile.sources[0].path if knob.span.file == profile.script else knob.span.file
    if place not in newer:
        return False
    text = SourceText.of(knob.span.file, newer[place])
    try:
        newer[place] = text.apply([text.edit(knob.span, old_knob.text)]).text
    except (RewriteRefused, ValueError):
        return False
    return newer == older
