"""The gradient noise scale, and the samples to the same loss as a function of the batch size.

McCandlish et al. 2018, "An Empirical Model of Large-Batch Training": with a batch of B samples, the steps to
a loss are proportional to 1 + N/B and the samples to 1 + B/N. N is tr(Sigma) / |G|^2: the trace of the
covariance of a sample's gradient, over the squared norm of the true gradient. The law assumes a suitable
learning rate for each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.observed_training import GradientSample

_DEVIATIONS = 2.0
"""Half width of the range, in standard errors of the jackknife: 95 % for about twenty gradients."""


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The noise scale in samples. None if the gradients give no bound, because the noise hides the true gradient."""

    value: float | None
    low: float
    high: float | None

    def relative_samples(self, batch: float, base: float) -> Interval:
        """Samples to the same loss at ``batch``, relative to the samples at ``base``."""
        ends = sorted(_relative(one, batch, base) for one in (self.low, self.high))
        value = _relative(self.value, batch, base)
        return Interval(value, min(value, ends[0]), max(value, ends[1]))


def _relative(noise: float | None, batch: float, base: float) -> float:
    if noise is None:
        return 1.0
    return (noise + batch) / (noise + base)


def noise_scale(sample: GradientSample, batch: int, dataset: int | None) -> NoiseScale | None:
    """The noise scale from gradients of ``batch`` samples each. None if there are too few, or if all are equal.

    The mean inner product of two different gradients is an unbiased estimate of |G|^2. The mean squared norm
    exceeds it by tr(Sigma) / B. This equals the estimate from the batch sizes B and K B. Batches of one epoch
    share no sample, which lowers the inner products by tr(Sigma) / ``dataset``; this amount is added. The
    range comes from the jackknife of 1 / N, which is finite even if N is not.
    """
    products = sample.products
    count = len(products)
    if count < 3:
        return None
    squares = [products[index][index] for index in range(count)]
    sums = [sum(row) for row in products]
    whole = _inverse(sum(squares), sum(sums), count, batch, dataset)
    if whole is None:
        return None
    parts = [
        _inverse(
            sum(squares) - squares[index],
            sum(sums) - 2 * sums[index] + squares[index],
            count - 1,
            batch,
            dataset,
        )
        for index in range(count)
    ]
    known = [one for one in parts if one is not None]
    mean = sum(known) / len(known)
    error = sqrt((len(known) - 1) / len(known) * sum((one - mean) ** 2 for one in known))
    return _turned(whole, whole - _DEVIATIONS * error, whole + _DEVIATIONS * error)


def _inverse(squares: float, total: float, count: int, batch: int, dataset: int | None) -> float | None:
    """|G|^2 / tr(Sigma) from the sum of the squared norms and the sum of all inner products."""
    norm = squares / count
    inner = (total - squares) / (count * (count - 1))
    trace = batch * (norm - inner)
    if trace <= 0:
        return None
    return inner / trace + (1 / dataset if dataset else 0.0)


def _turned(inverse: float, low: float, high: float) -> NoiseScale:
    smallest = 1 / high if high > 0 else 0.0
    return NoiseScale(1 / inverse if inverse > 0 else None, smallest, 1 / low if low > 0 else None)


_PIECES = 16
"""Number of integration steps between two measurements."""


def over_training(scales: Sequence[tuple[float, NoiseScale]], batch: float, updates: float) -> NoiseScale:
    """The noise scale that represents a whole training of ``updates`` updates with ``batch`` samples each.

    ``scales`` are pairs: the number of updates before a measurement, and its result. A step makes 1 / (1 +
    N/B) of the progress of a step without noise, and the steps to a loss are the sum of 1 + N/B over the
    progress. N is therefore averaged over the progress. It is interpolated between measurements and constant
    after the last one. The range covers all measurements, because nothing is known about the time between and
    after them.
    """
    known = [(at, one.value if one.value is not None else one.low) for at, one in scales]
    low = min(one.low for _, one in scales)
    highs = [one.high for _, one in scales if one.high is not None]
    high = max(highs) if len(highs) == len(scales) else None
    if all(one.value is None for _, one in scales):
        return NoiseScale(None, low, high)
    course = [(0.0, known[0][1]), *known, (max(updates, known[-1][0] + 1), known[-1][1])]
    weighted = progress = 0.0
    for (start, noise), (end, following) in pairwise(course):
        for piece in range(_PIECES):
            here = noise + (following - noise) * (piece + 0.5) / _PIECES
            step = (end - start) / _PIECES / (1 + here / batch)
            weighted += here * step
            progress += step
    return NoiseScale(weighted / progress, low, high)
