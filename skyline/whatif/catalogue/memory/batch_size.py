"""What if an iteration took more or fewer samples."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import PARTS, Part, TaskKind, parts_of
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit, usable_bytes
from skyline.predict.batch_curve import sizes_to_show
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.calibration import fitted, simulated_ms
from skyline.whatif.catalogue.memory.batch_scaling import (
    grown,
    grown_on_gpu,
    growth,
    ratio_of_operators,
)
from skyline.whatif.cost.embedding_rows import cleared_shares
from skyline.whatif.question import whole_number


@dataclass(frozen=True, slots=True)
class BatchSize(UsualWhatIf):
    """Reads the measured batch curve and scales each part of the iteration by its own factor."""

    name: str = "batch_size"
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.WORKLOAD
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"batch size {value}" if value else "another batch size"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if another size was measured; the default is the size with the best throughput."""
        curve = subject.curve
        if curve.base is None or curve.reason:
            return Applicability.no(curve.reason)
        sizes = tuple(size for size in shown_sizes(subject) if size != curve.base)
        within = [size for size in sizes if not curve.extrapolated(size)] or list(sizes)
        if not within:
            return Applicability.no("no other batch size fits into memory")
        best = max(within, key=lambda size: size / curve.ratio(size).value)
        return Applicability(True, values=tuple(map(str, sizes)), default=str(best))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the tasks to the iteration time of the curve; memory is read off the curve, too."""
        size = whole_number(self.name, value)
        baseline = subject
        curve = baseline.curve
        ratio = curve.ratio(size)
        factors = curve.part_factors(size)
        told_apart = {part for part, ms in baseline.parts_ms.items() if ms > 0}
        graph = scenario.graph
        by_part = np.array([factors[part if part in told_apart else Part.REST] for part in PARTS])
        everything = select(graph)
        parts = parts_of(graph.tasks)
        larger = size / (curve.base or size)
        wanted = baseline.simulated_ms * ratio.value
        extrapolated = curve.extrapolated(size)
        below_ms, above_ms = _unsure_ms(baseline, ratio)
        if baseline.on_gpu:
            batches = select(graph, kind=TaskKind.DATA)
            loaded = scale(graph, batches, factors[Part.LOADER], gaps=True)
            scaled = grown_on_gpu(baseline, loaded, larger, wanted)
        else:
            standing = cleared_shares(baseline.script, graph)
            tried = growth(baseline, graph, larger)
            scaled = grown(graph, baseline.lane, parts, by_part, larger, standing, tried)
            if extrapolated and (seen := ratio_of_operators(baseline, by_part, larger)) is not None:
                # The curve continues as a line; operators may not, as some work on pairs of samples.
                apart_ms = (seen - ratio.value) * baseline.iteration_ms.value
                below_ms, above_ms = max(below_ms, -apart_ms), max(above_ms, apart_ms)
        # On several lanes the parts overlap; the curve of whole iterations is decisive.
        simulated = simulated_ms(scaled, baseline.lane, baseline.runs_ahead)
        if baseline.runs_ahead:
            # A host that launches as much as before does not become slower if the GPU bounds the step.
            scaled = fitted(scaled, baseline.lane, wanted, ahead=True)
        elif simulated > 0:
            scaled = scale(scaled, everything, wanted / simulated, gaps=True)
        peak = curve.peak_bytes(size)
        predicted = baseline.script.prediction is not None
        assumptions = [_how_known(curve.measured(size), extrapolated, predicted=predicted)]
        interpolated = Provenance.MODELLED if extrapolated else Provenance.INTERPOLATED
        changed = scenario.changed(
            scaled,
            provenance=Provenance.MEASURED if curve.measured(size) else interpolated,
            below_ms=below_ms,
            above_ms=above_ms,
            assumptions=tuple(assumptions),
            memory=lambda memory: memory.to_peak(peak, baseline.batch_bytes, larger),
        )
        return replace(changed, batch_size=size, extrapolated=extrapolated)


def shown_sizes(baseline: Subject) -> tuple[int, ...]:
    """The batch sizes to offer: sizes whose memory probably fits, and always the script's own."""
    curve = baseline.curve
    capacity = usable_bytes(baseline.script)
    return tuple(
        size
        for size in offered_sizes(baseline)
        if size == curve.base or fit(curve.peak_bytes(size), capacity) is not Fit.TOO_LARGE
    )


def offered_sizes(baseline: Subject) -> tuple[int, ...]:
    """The batch sizes with known times, whether they fit or not."""
    curve = baseline.curve
    if curve.base is None:
        return ()
    data_sets = [loader.dataset_size for loader in baseline.script.loaders if loader.dataset_size]
    sizes = sizes_to_show(
        curve.base, (point.batch_size for point in curve.points), min(data_sets, default=None)
    )
    return tuple(size for size in sizes if size == curve.base or curve.knows(size))


def _unsure_ms(baseline: Subject, ratio: Interval) -> tuple[float, float]:
    """The uncertainty of the time in ms, below and above, in addition to that of the baseline.

    A predicted ratio includes the baseline's uncertainty, which is removed here so that it does not count
    twice.
    """
    own = baseline.iteration_ms
    below, above = (ratio.value - ratio.low) * own.value, (ratio.high - ratio.value) * own.value
    if baseline.script.prediction is None:
        return below, above
    brought = ratio.value * (own.value - own.low), ratio.value * (own.high - own.value)
    return sqrt(max(0.0, below**2 - brought[0] ** 2)), sqrt(max(0.0, above**2 - brought[1] ** 2))


def _how_known(measured: bool, extrapolated: bool, *, predicted: bool) -> str:
    if predicted:
        return (
            "predicted: traced at this batch size"
            if measured
            else "predicted: between or beyond traced sizes"
        )
    if measured:
        return "measured at this batch size"
    return "extrapolated beyond the measured batch sizes" if extrapolated else "between measured batch sizes"


WHATIF = BatchSize()
