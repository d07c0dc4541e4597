"""Kernels in another form, such as another number format or size. A predictor gives the times of both forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.predicted_times import in_allowed_format
from skyline.predict.registry import predictor_for, predictors
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape
from skyline.whatif.number_formats import Factors
from skyline.whatif.subject import Subject, shapes


@dataclass(frozen=True, slots=True)
class PredictedKernels:
    """The kernels of a graph, with the shapes of their operators and the predictor of their times."""

    profile: Profile
    spec: GpuSpec
    predictor: OperatorPredictor
    kernels: Indices
    shapes: tuple[OperatorShape, ...]

    @classmethod
    def of(cls, subject: Subject, graph: Graph) -> PredictedKernels | None:
        """The kernels of a predicted subject; None if it was measured, has no GPU, or its GPU is no longer known."""
        profile = subject.profile
        if profile is None or profile.prediction is None or not subject.on_gpu:
            return None
        try:
            spec = gpu_named(profile.prediction.gpu)
            predictor = predictors().get(profile.prediction.predictor) or predictor_for(spec)
        except UsageError:
            return None
        return cls.on(subject, graph, spec, predictor)

    @classmethod
    def on(
        cls, subject: Subject, graph: Graph, spec: GpuSpec, predictor: OperatorPredictor | None = None
    ) -> PredictedKernels:
        """The kernels of a profile on this GPU; for a measured profile, only the ``factors`` are meaningful."""
        kernels = select(graph, kind=TaskKind.KERNEL)
        known = shapes(subject, graph, kernels)
        told = np.array([one is not None for one in known], np.bool_)
        return cls(
            subject.script,
            spec,
            predictor or predictor_for(spec),
            kernels[told],
            tuple(one for one in known if one is not None),
        )

    def us(self, asked: Sequence[OperatorShape]) -> dict[OperatorShape, Interval]:
        """Times of the shapes as operators of one step: a predictor may consider the formats of other operators."""
        distinct = tuple(dict.fromkeys(asked))
        allowed = tuple(in_allowed_format(one, self.profile, self.spec) for one in distinct)
        times = _predicted(self.predictor, allowed, self.spec)
        return dict(zip(distinct, times, strict=True))

    def factors(self, before: Sequence[OperatorShape], after: Sequence[OperatorShape]) -> Factors:
        """The ratio of each kernel's time in its form ``after`` to its time in the form ``before``.

        The errors of both forms have half of their variance in common.
        """
        past, future = self.us(before), self.us(after)
        found = [_ratio(past[old], future[new]) for old, new in zip(before, after, strict=True)]
        ends = ([getattr(one, end) for one in found] for end in ENDS)
        return Factors(*(np.array(one, np.float64) for one in ends))


def _ratio(before: Interval, after: Interval) -> Interval:
    if before.value <= 0 or after.value <= 0:
        return Interval.exact(1.0)
    value = after.value / before.value
    return Interval(value, value * sqrt(after.low / after.value), value * sqrt(after.high / after.value))


@lru_cache(maxsize=32)
def _predicted(
    predictor: OperatorPredictor, asked: tuple[OperatorShape, ...], spec: GpuSpec
) -> tuple[Interval, ...]:
    return tuple(one.time_us for one in predictor.predict(asked, spec))
