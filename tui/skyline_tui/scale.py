"""Mapping between positions on a bar and batch sizes: the profile's curve, used in both directions.

Between two points of the curve, the iteration time, the samples per iteration and the memory are linear in the batch
size. Throughput is samples over time, which is monotonic within one segment, so that the search below can bisect.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from skyline.lazy_dataclass import dataclass
from skyline.report.schema import CurvePointReport


@dataclass(frozen=True, slots=True)
class Axis:
    """The values at both ends of a bar: the lowest and the highest of the curve."""

    bottom: float
    top: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Axis:
        """The axis from the lowest to the highest of the values."""
        return cls(min(values), max(values))

    @property
    def constant(self) -> bool:
        """True if the value is the same at every batch size."""
        return self.top - self.bottom <= self.top * 1e-6

    def fraction(self, value: float) -> float:
        """The position of a value on the bar; outside it, the nearer end."""
        if self.constant:
            return 1.0
        return min(max((value - self.bottom) / (self.top - self.bottom), 0.0), 1.0)

    def value(self, fraction: float) -> float:
        """The value at a position on the bar."""
        return self.bottom + fraction * (self.top - self.bottom)


@dataclass(frozen=True, slots=True)
class BarPoint:
    """Time (ms), samples and memory (bytes) of one iteration at one batch size."""

    batch_size: int
    iteration_ms: float
    samples: float
    memory_bytes: float
    extrapolated: bool = False

    @property
    def throughput(self) -> float:
        """Samples per second."""
        return self.samples / self.iteration_ms * 1000.0


@dataclass(frozen=True, slots=True)
class CurveScale:
    """The curve of the bars: at least two points, sorted by batch size."""

    places: tuple[BarPoint, ...]
    own: int | None = None
    """The batch size of the script, which counts as a common size."""

    @property
    def throughput(self) -> Axis:
        """The throughput axis, in samples per second."""
        return Axis.of([place.throughput for place in self.places])

    @property
    def memory(self) -> Axis:
        """The memory axis, in bytes."""
        return Axis.of([place.memory_bytes for place in self.places])

    @property
    def smallest(self) -> int:
        """The batch size at the left end."""
        return self.places[0].batch_size

    @property
    def largest(self) -> int:
        """The batch size at the right end."""
        return self.places[-1].batch_size

    @property
    def trusted_up_to(self) -> int | None:
        """The largest batch size that is not extrapolated; None if none or all are extrapolated."""
        inside = [place.batch_size for place in self.places if not place.extrapolated]
        return inside[-1] if inside and len(inside) < len(self.places) else None

    def at(self, batch_size: int) -> BarPoint:
        """The curve at a batch size; outside its range, at the nearer end."""
        sizes = [place.batch_size for place in self.places]
        if batch_size <= sizes[0]:
            return self.places[0]
        if batch_size >= sizes[-1]:
            return self.places[-1]
        index = bisect_right(sizes, batch_size) - 1
        return _between(self.places[index], self.places[index + 1], batch_size)

    def usual_for_throughput(self, samples_per_s: float) -> int:
        """The common batch size nearest to this throughput."""
        return self._usual(self.batch_size_for_throughput(samples_per_s))

    def usual_for_memory(self, size_bytes: float) -> int:
        """The common batch size nearest to this memory."""
        return self._usual(self.batch_size_for_memory(size_bytes))

    def _usual(self, batch_size: int) -> int:
        also = (self.smallest, self.largest, *(() if self.own is None else (self.own,)))
        return nearest_usual(batch_size, self.smallest, self.largest, also)

    def batch_size_for_throughput(self, samples_per_s: float) -> int:
        """The smallest batch size with this throughput. If none reaches it, the size with the highest throughput."""
        if self.places[0].throughput >= samples_per_s:
            return self.smallest
        for left, right in zip(self.places, self.places[1:], strict=False):
            if right.throughput >= samples_per_s:
                return _nearest(left, right, samples_per_s, lambda place: place.throughput)
        return max(self.places, key=lambda place: place.throughput).batch_size

    def batch_size_for_memory(self, size_bytes: float) -> int:
        """The batch size with the nearest memory. For a value outside the curve, the batch size at the nearer end."""
        if self.places[0].memory_bytes >= size_bytes:
            return self.smallest
        for left, right in zip(self.places, self.places[1:], strict=False):
            if right.memory_bytes >= size_bytes:
                return _nearest(left, right, size_bytes, lambda place: place.memory_bytes)
        return self.largest

    def under(self, time_factor: float, memory_factor: float) -> CurveScale:
        """The curve under what-ifs, which are assumed to scale time and memory equally at every size.

        Used until the server sends the curve under these what-ifs. The ends of the bars scale in the same way.
        """
        places = tuple(
            replace(
                place,
                iteration_ms=place.iteration_ms * time_factor,
                memory_bytes=place.memory_bytes * memory_factor,
            )
            for place in self.places
        )
        return replace(self, places=places)


def scale_of(points: Iterable[CurvePointReport], own: int | None = None) -> CurveScale | None:
    """The scale of a curve; None with fewer than two points."""
    places = tuple(_places(points))
    return CurveScale(places, own) if len(places) > 1 else None


def _places(points: Iterable[CurvePointReport]) -> list[BarPoint]:
    by_size = {point.batch_size: point for point in points if point.iteration_ms.value > 0}
    return [
        BarPoint(
            size,
            point.iteration_ms.value,
            point.throughput.value * point.iteration_ms.value / 1000.0,
            point.peak_bytes.value,
            point.extrapolated,
        )
        for size, point in sorted(by_size.items())
    ]


def _between(left: BarPoint, right: BarPoint, batch_size: int) -> BarPoint:
    share = (batch_size - left.batch_size) / (right.batch_size - left.batch_size)
    return BarPoint(
        batch_size,
        left.iteration_ms + share * (right.iteration_ms - left.iteration_ms),
        left.samples + share * (right.samples - left.samples),
        left.memory_bytes + share * (right.memory_bytes - left.memory_bytes),
        right.extrapolated,
    )


def _nearest(left: BarPoint, right: BarPoint, target: float, read: Callable[[BarPoint], float]) -> int:
    """The integer batch size in one monotonic segment of the curve that is nearest to the target."""
    below, above = left.batch_size, right.batch_size
    while above - below > 1:
        middle = (below + above) // 2
        if read(_between(left, right, middle)) < target:
            below = middle
        else:
            above = middle
    gap_below = target - read(_between(left, right, below))
    gap_above = read(_between(left, right, above)) - target
    return below if gap_below < gap_above else above


_SINGLY_UP_TO = 8
_STEPS = (4, 5, 6, 7)
"""Four steps per doubling: 8, 10, 12, 14, 16, 20, 24, 28, 32, ..."""


def usual_sizes(up_to: int) -> Iterator[int]:
    """All common sizes, ascending: each up to 8, then four per doubling."""
    yield from range(1, min(_SINGLY_UP_TO, up_to + 1))
    doubled = _SINGLY_UP_TO // _STEPS[0]
    while doubled * _STEPS[0] <= up_to:
        yield from (step * doubled for step in _STEPS if step * doubled <= up_to)
        doubled *= 2


def nearest_usual(batch_size: int, smallest: int, largest: int, also: Iterable[int] = ()) -> int:
    """The nearest common size between two sizes; on a tie, the smaller one. ``also`` are sizes that count as common."""
    inside = {size for size in (*usual_sizes(largest), *also) if smallest <= size <= largest}
    return min(inside, key=lambda size: (abs(size - batch_size), size), default=batch_size)
