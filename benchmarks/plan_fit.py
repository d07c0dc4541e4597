"""The fit of the planner's constants on published rows, and its errors on rows left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from plan_rows import PublishedRun

from skyline.plan.constant import ATTENTION_SHARE, CONTENTION, ELEMENTWISE_PASSES, EXPOSED_LATENCY, PEAK_SHARE
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.step import StepFactors, step_time
from skyline.plan.strategy import Precision
from skyline.plan.work import Work, work_of
from skyline.predict.operator_time import OperatorPredictor

_ROUNDS = 14
_NEUTRAL = {"peak": 0.7, "attention": 0.45, "passes": 1.2, "contention": 0.2, "latency": 1.0}
"""Start of a fit: round values that come from no row."""
_LEAST = 0.05


@dataclass(frozen=True, slots=True)
class Constants:
    """The fitted constants: shares by architecture, and common constants of all GPUs."""

    peak: dict[str, float]
    attention: dict[str, float]
    passes: float = ELEMENTWISE_PASSES.value
    contention: float = CONTENTION.value
    latency: float = EXPOSED_LATENCY.value

    @classmethod
    def shipped(cls) -> Constants:
        return cls(
            {name: one.value for name, one in PEAK_SHARE.items()},
            {name: one.value for name, one in ATTENTION_SHARE.items()},
        )

    def factors(self, architecture: str) -> StepFactors:
        """Multiples of the times under the shipped constants. An unknown architecture gets the mean of the others."""
        peak = self.peak.get(architecture, sum(self.peak.values()) / len(self.peak))
        attention = self.attention.get(architecture, sum(self.attention.values()) / len(self.attention))
        shipped = PEAK_SHARE[architecture].value
        return StepFactors(
            product=shipped / peak,
            attention=shipped * ATTENTION_SHARE[architecture].value / (peak * attention),
            other=self.passes / ELEMENTWISE_PASSES.value,
            contention=self.contention,
            latency=self.latency,
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """Runs with the times of their layers."""

    runs: tuple[PublishedRun, ...]
    works: tuple[Work, ...]

    @classmethod
    def of(cls, runs: Sequence[PublishedRun], predictor: OperatorPredictor) -> Fitted:
        """The rows used in the fit: FSDP in 16 bits on known architectures."""
        used = tuple(
            run
            for run in runs
            if run.source == "llm-foundry"
            and run.strategy.precision is not Precision.FLOAT8
            and run.cluster.gpu.architecture in PEAK_SHARE
        )
        kernels = {run.gpu: KernelTimes(run.cluster.gpu, predictor) for run in used}
        return cls(
            used,
            tuple(
                work_of(run.model.layers(run.strategy), kernels[run.gpu], run.strategy.precision)
                for run in used
            ),
        )

    def errors(self, constants: Constants, rows: Sequence[int]) -> list[float]:
        """Logarithms of predicted over published throughput."""
        found: list[float] = []
        for row in rows:
            run = self.runs[row]
            step = step_time(
                self.works[row], run.strategy, run.cluster, constants.factors(run.cluster.gpu.architecture)
            )
            tokens = run.strategy.samples_per_step * run.model.sequence / run.strategy.ranks
            found.append(log(tokens / (step.total_us / 1e6) / run.tokens_per_s_gpu))
        return found

    def fit(self, rows: Sequence[int]) -> Constants:
        """The constants with the least mean absolute error, by coordinate descent from neutral ones."""
        seen = {self.runs[row].cluster.gpu.architecture for row in rows}
        known = Constants(
            dict.fromkeys(sorted(seen), _NEUTRAL["peak"]),
            dict.fromkeys(sorted(seen), _NEUTRAL["attention"]),
            _NEUTRAL["passes"],
            _NEUTRAL["contention"],
            _NEUTRAL["latency"],
        )

        def loss(constants: Constants) -> float:
            return float(np.mean(np.abs(self.errors(constants, rows))))

        best, least, size = known, loss(known), 0.12
        for _ in range(_ROUNDS):
            for change in _changes(known, size):
                tried = change(best)
                error = loss(tried)
                if error < least:
                    best, least = tried, error
            size *= 0.8
        return best

    def left_out(self, group: Callable[[PublishedRun], str]) -> dict[str, list[float]]:
        """Relative errors of each group by constants that were fitted on the others."""
        groups = sorted({group(run) for run in self.runs})
        found: dict[str, list[float]] = {}
        for name in groups:
            inside = [row for row, run in enumerate(self.runs) if group(run) == name]
            others = [row for row in range(len(self.runs)) if row not in set(inside)]
            if others:
                errors = self.errors(self.fit(others), inside)
                found[name] = [abs(np.exp(error) - 1) for error in errors]
        return found


def _changes(constants: Constants, size: float) -> list[Callable[[Constants], Constants]]:
    found: list[Callable[[Constants], Constants]] = []
    for factor in (1 + size, 1 / (1 + size)):
        for name in constants.peak:
            found.append(
                lambda one, name=name, factor=factor: replace(one, peak=_scaled(one.peak, name, factor))
            )
            found.append(
                lambda one, name=name, factor=factor: replace(
                    one, attention=_scaled(one.attention, name, factor)
                )
            )
        found.append(lambda one, factor=factor: replace(one, passes=one.passes * factor))
        found.append(
            lambda one, factor=factor: replace(one, contention=max(_LEAST, one.contention * factor**2))
        )
        found.append(lambda one, factor=factor: replace(one, latency=max(_LEAST, one.latency * factor**3)))
    return found


def _scaled(values: dict[str, float], name: str, factor: float) -> dict[str, float]:
    return {**values, name: values[name] * factor}
