"""Layers by their activations, over several samples."""

from __future__ import annotations

from collections.abc import Collection

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine
from skyline.watch.course import Course


@dataclass(frozen=True, slots=True)
class LayerShare:
    """The smallest share of a layer over the samples; ``name`` is the name of the layer before its activation."""

    name: str
    kind: str
    share: float
    line: CodeLine | None


def shares_of_activations(
    course: Course, kinds: Collection[str], samples: int, least: float
) -> list[LayerShare]:
    """Layers whose share is at least ``least`` in each of the last samples, largest share first."""
    latest = course.latest_samples(samples)
    if len(latest) < samples:
        return []
    each: list[dict[tuple[int, str, int], float]] = []
    for sample in latest:
        of_sample: dict[tuple[int, str, int], float] = {}
        for place, (kind, number, share) in enumerate(sample.activations):
            if kind in kinds:
                of_sample[place, kind, number] = share
        each.append(of_sample)
    found: list[LayerShare] = []
    for key in set(each[0]).intersection(*each[1:]):
        _, kind, number = key
        share = min(of_sample[key] for of_sample in each)
        if share >= least:
            row = course.parameter(number)
            found.append(LayerShare(row.name.rpartition(".")[0] or row.name, kind, share, row.line))
    return sorted(found, key=lambda layer: (-layer.share, layer.name))
