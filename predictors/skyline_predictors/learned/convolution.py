"""Convolutions without TF32: as the product of patches and weights, and what tells how far a real one departs.

Libraries also have shorter ways: small filters at stride one need up to 4 times less arithmetic after Winograd's
transformation (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016), larger ones up to 8
times less through Fourier's. Which one is taken is left to what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skyline_predictors.learned import product
from skyline_predictors.learned.machine import Machine
from skyline_predictors.learned.product import ProductConstants, Products

Floats = NDArray[np.float64]
_ELEMENT = 4


@dataclass(frozen=True, slots=True)
class Convolutions:
    """Some convolutions, one for each place of the arrays.

    ``images`` have ``channels`` in ``groups``, with ``size`` pixels before and ``out_size`` after; filters have
    ``taps`` pixels and step by ``stride``.
    """

    images: Floats
    channels: Floats
    filters: Floats
    groups: Floats
    taps: Floats
    size: Floats
    out_size: Floats

    @property
    def stride(self) -> Floats:
        """Of both directions together, as a factor between the sizes."""
        return np.maximum(1.0, np.round(self.size / self.out_size))

    def as_products(self) -> Products:
        """Output pixels by filters over patches, one product for each group."""
        return Products(
            self.groups,
            self.images * self.out_size,
            self.filters / self.groups,
            self.channels / self.groups * self.taps,
        )

    @property
    def bytes_moved(self) -> Floats:
        """Images, weights and results, each once."""
        weights = self.filters * self.channels / self.groups * self.taps
        return _ELEMENT * (self.images * (self.channels * self.size + self.filters * self.out_size) + weights)


def least_us(convolutions: Convolutions, gpu: Machine) -> Floats:
    """What no kernel beats, whichever way it takes."""
    at_one = (convolutions.stride <= 1) & (convolutions.taps > 1)
    saving = np.where(at_one, np.where(convolutions.taps <= 9, 4.0, 8.0), 1.0)
    arithmetic = convolutions.as_products().flops / saving / gpu.flop_per_us
    return np.maximum(arithmetic, np.maximum(0.0, convolutions.bytes_moved - gpu.l2_bytes) / gpu.bytes_per_us)


def physics_us(convolutions: Convolutions, gpu: Machine, constants: ProductConstants) -> Floats:
    """As a product, its patches read once, in µs."""
    products = convolutions.as_products()
    return product.physics_us(products, gpu, constants, convolutions.bytes_moved)


def features(convolutions: Convolutions, gpu: Machine, physics: Floats) -> Floats:
    """What may tell how far a convolution departs from physics, the same on any GPU."""
    products = convolutions.as_products()
    own = [
        np.log2(convolutions.taps),
        convolutions.stride,
        np.log2(convolutions.size),
        np.log2(convolutions.images),
        np.log2(convolutions.channels),
        np.log2(convolutions.filters),
        np.log2(convolutions.bytes_moved / gpu.l2_bytes),
    ]
    return np.concatenate([np.stack(own, axis=1), product.features(products, gpu, physics)], axis=1)
