"""How much faster or slower measured operators were than predicted, read at sizes that were not measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

_LENGTHS = (1.5, 3.0, 6.0)
"""Over how many powers of two of a size an operator speaks for others."""
_HEIGHTS = (0.3, 0.8)
_NOISES = (0.05, 0.15, 0.3)
_SLOPE = 0.05
_LEVEL = 0.3
_UNSTEADY = 0.5
"""Of the spread that a measurement's blocks had, this share counts as its noise."""
_FEW = 8
_FEW_SPREAD = 0.7
"""With fewer, the ratio may be off by a factor of two, whatever they say."""
_NINE_IN_TEN = 1.645
_BEYOND = 0.5
"""How far the logarithm of a ratio may lie beyond all that were measured."""


@dataclass(frozen=True, slots=True)
class GaussianCorrection:
    """A Gaussian process over the logarithm of measured over predicted time (Rasmussen and Williams, 2006, chapter 2).

    ``sizes`` has a row for each measured operator, in powers of two, ``ratios`` its logarithm; ``weights`` and
    ``inverse`` are those of the process. ``left_out`` is what remains of each logarithm when it is read from all
    others (section 5.4.2), and ``widened`` by how much intervals have to be wider than the process says for nine in
    ten of those to lie inside.
    """

    sizes: Array
    ratios: Array
    middle: float
    weights: Array
    inverse: Array
    length: float
    height: float
    noise: float
    bounds: tuple[float, float]
    left_out: Array
    widened: float

    @classmethod
    def of(cls, sizes: Array, ratios: Array, spreads: Array) -> GaussianCorrection:
        """Of at least one operator; how smooth the ratios are is chosen by how well each is told by the others."""
        middle = float(np.median(ratios))
        rest = ratios - middle
        unsteady = (_UNSTEADY * np.minimum(spreads, 1.0)) ** 2
        best: tuple[float, Array, Array, Array, tuple[float, float, float]] | None = None
        for length, height, noise in product(_LENGTHS, _HEIGHTS, _NOISES):
            covariance = _covariance(sizes, sizes, sizes.mean(axis=0), length, height)
            inverse = np.linalg.inv(covariance + np.diag(noise**2 + unsteady))
            diagonal = np.diag(inverse)
            left_out = (inverse @ rest) / diagonal
            likelihood = float(np.log(diagonal).sum() - (left_out**2 * diagonal).sum())
            if best is None or likelihood > best[0]:
                best = (likelihood, inverse, left_out, diagonal, (length, height, noise))
        assert best is not None
        _, inverse, left_out, diagonal, (length, height, noise) = best
        widened = 1.0
        if len(ratios) >= _FEW:
            widened = float(np.quantile(np.abs(left_out) * np.sqrt(diagonal), 0.9)) / _NINE_IN_TEN
        bounds = (float(ratios.min()) - _BEYOND, float(ratios.max()) + _BEYOND)
        return cls(
            sizes,
            ratios,
            middle,
            inverse @ rest,
            inverse,
            length,
            height,
            noise,
            bounds,
            left_out,
            max(0.5, widened),
        )

    def read(self, sizes: Array) -> tuple[Array, Array]:
        """The logarithm of the ratio at each of ``sizes``, and half the width of its interval of nine in ten."""
        centre = self.sizes.mean(axis=0)
        across = _covariance(sizes, self.sizes, centre, self.length, self.height)
        values = np.clip(self.middle + across @ self.weights, *self.bounds)
        own = self.height**2 + _SLOPE**2 * ((sizes - centre) ** 2).sum(axis=1) + _LEVEL**2
        variance = (
            np.maximum(0.0, own - np.einsum("ij,jk,ik->i", across, self.inverse, across)) + self.noise**2
        )
        half = _NINE_IN_TEN * self.widened * np.sqrt(variance)
        return values, np.maximum(half, _FEW_SPREAD) if len(self.sizes) < _FEW else half


def _covariance(left: Array, right: Array, centre: Array, length: float, height: float) -> Array:
    """Near sizes go together; over all of them there is a level and a slope."""
    squares = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    slopes = _SLOPE**2 * (left - centre) @ (right - centre).T
    return height**2 * np.exp(-squares / (2 * length**2)) + slopes + _LEVEL**2
