"""SKY101: the script waits while its own process makes the batches."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.findings.base import Finding
from skyline.graph.part import Part
from skyline.whatif.baseline import Baseline

_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class DataLoadingBound:
    """More than a tenth of the iteration goes into loaders that have no worker processes."""

    code: str = "SKY101"

    def check(self, baseline: Baseline) -> Finding | None:
        """Points at the DataLoader's construction; costs the whole time spent inside it."""
        if baseline.profile.prediction is not None:
            # What the data set does on the host is not predicted well enough to point at it.
            return None
        cost_ms = baseline.parts_ms[Part.LOADER]
        total_ms = baseline.iteration_ms.value
        idle = [loader for loader in baseline.profile.loaders if loader.num_workers == 0]
        if not idle or cost_ms <= _SHARE * total_ms:
            return None
        place = next((loader.created_line for loader in idle if loader.created_line), None)
        return Finding(
            self.code,
            f"{cost_ms / total_ms:.0%} of the iteration is data loading, in the script's own process",
            place.file if place else "",
            place.line if place else 0,
            cost_ms,
            "num_workers",
        )


RULE = DataLoadingBound()
