"""Groups of consecutive layers that go through a batch in sub-batches, so that activations stay in a cache.

Mini-batch serialization (Lym, Behroozi, Wen, Li, Kwon, Erez, MLSys 2019) chooses groups and sizes greedily, by traffic.
Here both follow from a shortest path over the layers, with measured times of smaller batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from skyline.lazy_dataclass import dataclass
from skyline.whatif.constant import Constant

_COPIES = Constant.at(
    3.0,
    "the parts at the end of a group are read and written as one tensor, and its gradient is read in parts",
)
_ADDING = Constant.at(
    3.0, "a gradient that is added to the one of the part before: both are read, one is written"
)


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer with the whole batch: the bytes of its input, output, largest memory use, and weights.

    ``passes_us`` is the time of both passes over the whole batch, by the number of samples of a sub-batch.
    """

    input_bytes: float
    output_bytes: float
    held_bytes: float
    weight_bytes: float
    passes_us: Mapping[int, float]

    def fits(self, share: float, cache_bytes: float) -> bool:
        """True if a cache holds its weights and this share of its activations."""
        return self.held_bytes * share + self.weight_bytes <= cache_bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Layers ``begin`` to ``end - 1`` in sub-batches of ``samples`` samples."""

    begin: int
    end: int
    samples: int


@dataclass(frozen=True, slots=True)
class Serialization:
    """Layers with a batch of ``whole`` samples, the size of a cache, and the rate of memory."""

    layers: Sequence[LayerCost]
    whole: int
    cache_bytes: float
    bytes_per_us: float

    def groups(self) -> tuple[Group, ...]:
        """The groups with the least total time; none if sub-batches gain nothing."""
        if not self.layers:
            return ()
        sizes = sorted(self.layers[0].passes_us, reverse=True)
        before = [self._layer_us(0, size) + self._enter_us(0, size) for size in sizes]
        came: list[list[int]] = []
        for place in range(1, len(self.layers)):
            left = [us + self._leave_us(place - 1, size) for us, size in zip(before, sizes, strict=True)]
            best = min(range(len(sizes)), key=left.__getitem__)
            now: list[float] = []
            chosen: list[int] = []
            for number, size in enumerate(sizes):
                entered = left[best] + self._enter_us(place, size)
                chosen.append(number if before[number] <= entered else best)
                now.append(min(before[number], entered) + self._layer_us(place, size))
            came.append(chosen)
            before = now
        last = len(self.layers) - 1
        ends = [us + self._leave_us(last, size) for us, size in zip(before, sizes, strict=True)]
        number = min(range(len(sizes)), key=ends.__getitem__)
        path = [number]
        for chosen in reversed(came):
            path.append(chosen[path[-1]])
        return self._runs([sizes[one] for one in reversed(path)])

    def changes_us(self, groups: Sequence[Group]) -> list[float]:
        """The change of each layer's time by these groups, compared with the whole batch, in µs."""
        found = [0.0] * len(self.layers)
        for group in groups:
            for place in range(group.begin, group.end):
                found[place] += self._layer_us(place, group.samples)
            found[group.begin] += self._enter_us(group.begin, group.samples)
            found[group.end - 1] += self._leave_us(group.end - 1, group.samples)
        return found

    def copied_bytes(self, groups: Sequence[Group]) -> float:
        """The bytes of the groups' outputs, which exist both as parts and as a whole."""
        return sum(self.layers[group.end - 1].output_bytes for group in groups)

    def _layer_us(self, place: int, size: int) -> float:
        if size == self.whole:
            return 0.0
        layer = self.layers[place]
        if not layer.fits(size / self.whole, self.cache_bytes):
            return inf
        adding_us = (self.whole / size - 1) * _ADDING.value * layer.weight_bytes / self.bytes_per_us
        return layer.passes_us[size] - layer.passes_us[self.whole] + adding_us

    def _enter_us(self, place: int, size: int) -> float:
        # The measured smaller batch found its input in the cache, so reading it from memory is added.
        return self.layers[place].input_bytes / self.bytes_per_us if size < self.whole else 0.0

    def _leave_us(self, place: int, size: int) -> float:
        copied = _COPIES.value * self.layers[place].output_bytes
        return copied / self.bytes_per_us if size < self.whole else 0.0

    def _runs(self, sizes: Sequence[int]) -> tuple[Group, ...]:
        found: list[Group] = []
        for place, size in enumerate(sizes):
            if size == self.whole:
                continue
            if found and found[-1].end == place and found[-1].samples == size:
                found[-1] = Group(found[-1].begin, place + 1, size)
            else:
                found.append(Group(place, place + 1, size))
        return tuple(found)
