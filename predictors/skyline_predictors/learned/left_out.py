"""Training without one GPU and the error on it, which decides the weight of a correction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.call_time import shown_us
from skyline_predictors.constants import Spread
from skyline_predictors.learned import boosting
from skyline_predictors.learned import family as families
from skyline_predictors.learned.family import Family, Physics
from skyline_predictors.learned.fitting import fitted
from skyline_predictors.learned.forest import Forest
from skyline_predictors.learned.machine import LearnedGpu, machine
from skyline_predictors.learned.measurements import KernelMeasurements
from skyline_predictors.learned.model import LONGER_US, with_generation
from skyline_predictors.learned.stream import Streams

Floats = NDArray[np.float64]
_TRUSTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TAIL = 0.05
ROWS, ROWS_LEFT_OUT = 8000, 3000
"""Number of kernels of each GPU that trees are grown from. More do not improve the trees."""
_TESTED = 0.3
_ENOUGH = 200
"""Least number of kernels for quantiles of their own."""
_TWO_SIDED = 1.645
"""Half width of the interval that nine in ten values lie in, in standard deviations."""
_BELIEVED = 0.5
"""Share of the departure from physics that is learned from contradicted measurements. The prediction ends
midway between the measurement and physics."""
_FURTHEST = 2.5
"""Limit of the logarithms of corrections. Larger values are outliers of the measurement."""


@dataclass(frozen=True, slots=True)
class Held:
    """One GPU that was left out: its times by physics and their correction by the shared trees of the others."""

    measured: KernelMeasurements
    physics_us: Floats
    correction: Floats
    least_us: Floats

    def kernel_us(self, trust: float) -> Floats:
        """Prediction for each kernel with the correction at this weight."""
        return np.maximum(self.least_us, self.physics_us * np.exp(trust * self.correction))

    def logs(self, trust: float) -> Floats:
        """Logarithm of measured over predicted time of each call."""
        return np.log(self.measured.time_us / shown_us(self.kernel_us(trust), self.measured.shortest_us))


def seen_by(family: Family, one: KernelMeasurements, physics: Physics) -> tuple[LearnedGpu, Floats, Floats]:
    """The GPU, the times of physics, and the features of the kernels."""
    constants = physics.convolution if family is Family.CONVOLUTION else physics.product
    gpu = machine(one.gpu, constants.rates)
    times = families.physics_us(family, one.sizes, gpu, physics)
    return gpu, times, families.features(one.sizes, gpu, times)


def grown(
    family: Family,
    measured: Sequence[KernelMeasurements],
    physics: Physics,
    *,
    own: bool,
    trees: int = boosting.TREES,
    rows: int = ROWS,
) -> Forest:
    """Trees for the departure from physics, from ``rows`` kernels of each GPU. ``own`` trees see the generation."""
    chooser = np.random.default_rng(0)
    known = generations(measured)
    features: list[Floats] = []
    targets: list[Floats] = []
    weights: list[Floats] = []
    for whole in measured:
        kept = np.flatnonzero(whole.reliable | own)
        one = whole.part(np.sort(chooser.permutation(kept)[:rows]))
        gpu, times, seen = seen_by(family, one, physics)
        features.append(with_generation(seen, gpu.generation, known) if own else seen)
        targets.append(departure(one, times))
        weights.append(one.weight / one.weight.sum())
    return boosting.boosted(
        np.concatenate(features), np.concatenate(targets), np.concatenate(weights), trees=trees
    )


def departure(measured: KernelMeasurements, physics_us: Floats) -> Floats:
    """Logarithms of kernel times over the times of physics, as training targets.

    A call that takes hardly longer than the shortest one limits how long its kernel is, but not how short.
    """
    logs = np.clip(np.log(measured.kernel_us / physics_us), -_FURTHEST, _FURTHEST)
    logs = np.where(logs > 0, measured.telling * logs, logs)
    return np.where(measured.reliable, logs, _BELIEVED * logs)


def reach(family: Family, measured: Sequence[KernelMeasurements]) -> tuple[list[float], list[float]]:
    """The least and the largest value of each size."""
    extents = np.concatenate([families.extents(family, one.sizes) for one in measured])
    return extents.min(axis=0).round(2).tolist(), extents.max(axis=0).round(2).tolist()


def generations(measured: Sequence[KernelMeasurements]) -> list[str]:
    """The GPUs' generations, in the order in which the trees number them."""
    return sorted({one.gpu.generation for one in measured})


def left_out(
    family: Family, measured: Sequence[KernelMeasurements], start: Physics, steps: int, trees: int
) -> list[Held]:
    """The results for each GPU in turn, with constants and ``trees`` trees from the other GPUs."""
    found: list[Held] = []
    for out in measured:
        others = [one for one in measured if one is not out]
        physics, _ = fitted(family, others, start, steps, seed=2)
        tested = out.part(out.reliable)
        gpu, times, seen = seen_by(family, tested, physics)
        correction = np.zeros(len(times))
        if trees:
            forest = grown(family, others, physics, own=False, trees=trees, rows=ROWS_LEFT_OUT)
            correction = forest.predict(seen)
        found.append(Held(tested, times, correction, families.least_us(tested.sizes, gpu)))
    return found


def trust(held: Sequence[Held]) -> float:
    """The share of the correction that is applied on a GPU of an unknown generation.

    It is the smallest share whose error on the GPUs left out is within one standard error of the best: five
    GPUs are few to choose by (Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning",
    §7.10).
    """
    errors = {share: np.array([_off(one, share) for one in held]) for share in _TRUSTS}
    best = errors[min(_TRUSTS, key=lambda share: float(errors[share].mean()))]
    for share in _TRUSTS:
        worse = errors[share] - best
        if worse.mean() <= worse.std(ddof=1) / len(worse) ** 0.5:
            return share
    return _TRUSTS[-1]


def _off(one: Held, share: float) -> float:
    return float(np.average(np.abs(one.logs(share)), weights=one.measured.weight))


def spreads(held: Sequence[Held], share: float) -> list[Spread]:
    """Intervals that nine in ten kernels of all GPUs lie in, by length. Each GPU has the same weight."""
    return by_length(
        np.concatenate([one.logs(share) for one in held]),
        np.concatenate([one.measured.weight / one.measured.weight.sum() for one in held]),
        np.concatenate([one.kernel_us(share) for one in held]),
    )


def known_spreads(
    family: Family,
    measured: Sequence[KernelMeasurements],
    physics: Physics,
    held: Sequence[Held],
    share: float,
) -> dict[str, list[Spread]]:
    """The intervals for GPUs of each measured generation.

    The scatter is measured on kernels that the trees were not grown from. It differs between generations: one
    interval for all would be too narrow for some and too wide for others. The scatter does not cover another
    board or another day. The overall error of GPUs that were left out is therefore added in squares.
    """
    chooser = np.random.default_rng(1)
    tests: list[KernelMeasurements] = []
    rest: list[KernelMeasurements] = []
    for one in measured:
        out = _unlike(family, one, chooser)
        # A contradicted measurement does not show how far measurements scatter.
        tests.append(one.part(out & one.reliable))
        rest.append(one.part(~out))
    forest = grown(family, rest, physics, own=True, trees=150, rows=ROWS_LEFT_OUT)
    known = generations(measured)
    offset = board_offset(held, share)
    found: dict[str, list[Spread]] = {}
    for generation in known:
        logs: list[Floats] = []
        weights: list[Floats] = []
        kernels: list[Floats] = []
        for one in (test for test in tests if test.gpu.generation == generation):
            _, times, seen = seen_by(family, one, physics)
            kernel = times * np.exp(forest.predict(with_generation(seen, generation, known)))
            logs.append(np.log(one.time_us / shown_us(kernel, one.shortest_us)))
            weights.append(one.weight / one.weight.sum())
            kernels.append(kernel)
        within = by_length(np.concatenate(logs), np.concatenate(weights), np.concatenate(kernels))
        found[generation] = [
            Spread(
                float(np.exp(-np.hypot(np.log(one.low), offset))),
                float(np.exp(np.hypot(np.log(one.high), offset))),
            )
            for one in within
        ]
    return found


def board_offset(held: Sequence[Held], share: float) -> float:
    """Half width, as a logarithm, of the interval of the overall errors of nine in ten GPUs that are left out.

    Long kernels have more weight: the shortest calls take the same time whatever is predicted for their
    kernels.
    """
    offsets = [weighted_quantile(one.logs(share), one.measured.weight, 0.5) for one in held]
    return _TWO_SIDED * float(np.std(offsets, ddof=1))


def _unlike(family: Family, one: KernelMeasurements, chooser: np.random.Generator) -> NDArray[np.bool_]:
    """The kernels to leave out: three tenths. For work row by row, all kernels in every other octave of row lengths.

    The length of a row decides which of several kernels computes it, and the lengths in use are few round
    numbers.
    """
    if isinstance(one.sizes, Streams) and family is not Family.ELEMENTWISE:
        return np.round(np.log2(one.sizes.length)) % 2 == 0
    return chooser.random(len(one.time_us)) < _TESTED


def by_length(logs: Floats, weights: Floats, kernel_us: Floats) -> list[Spread]:
    """Intervals of short, longer and long kernels. The interval of all kernels if a length has too few."""
    which = np.searchsorted(LONGER_US, kernel_us)
    found: list[Spread] = []
    for place in range(len(LONGER_US) + 1):
        chosen = which == place
        enough = int(chosen.sum()) >= _ENOUGH
        found.append(quantiles(logs[chosen], weights[chosen]) if enough else quantiles(logs, weights))
    return found


def quantiles(logs: Floats, weights: Floats) -> Spread:
    """The factors that cut off one twentieth of the weight at each end."""
    low, high = (weighted_quantile(logs, weights, tail) for tail in (_TAIL, 1 - _TAIL))
    return Spread(float(np.exp(min(low, 0.0))), float(np.exp(max(high, 0.0))))


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The smallest value that reaches this share of the weight."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(reached, share)])


def mean_error(logs: Floats) -> float:
    """Mean |predicted / measured - 1|."""
    return float(np.mean(np.abs(np.exp(-logs) - 1)))


def no_surer(found: Sequence[Spread], known: Iterable[Sequence[Spread]]) -> list[Spread]:
    """Intervals for a generation that was not measured: at least as wide as for every measured one."""
    return [
        Spread(min(one.low for one in length), max(one.high for one in length))
        for length in zip(found, *known, strict=True)
    ]
