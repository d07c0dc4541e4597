"""Convolutions without TF32: as the product of patches and weights, and what tells how far a real one departs.

Libraries also have shorter ways: small filters at stride one need up to 4 times less arithmetic after Winograd's
transformation (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016), larger ones up to 8
times less through Fourier's. Which one is taken is left to what was measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyline_predictors.learned import product
from skyline_predictors.learned.machine import LearnedGpu
from skyline_predictors.learned.product import BatchedProducts, ProductConstants
from skyline_predictors.shape_reading import Convolutions

Floats = NDArray[np.float64]


def stride(convolutions: Convolutions) -> Floats:
    """Of both directions together, as a factor between the sizes."""
    return np.maximum(1.0, np.round(convolutions.size / convolutions.out_size))


def products(convolutions: Convolutions) -> BatchedProducts:
    """Output pixels by filters over patches, one product for each group."""
    groups = convolutions.groups
    pixels, patch = (
        convolutions.images * convolutions.out_size,
        convolutions.channels / groups * convolutions.taps,
    )
    return BatchedProducts(
        *(np.maximum(1.0, one) for one in (groups, pixels, convolutions.filters / groups, patch))
    )


def bytes_moved(convolutions: Convolutions) -> Floats:
    """Images, weights and results, each once."""
    groups, element = convolutions.groups, convolutions.element_bytes
    pixels, filters = convolutions.images * convolutions.out_size, convolutions.filters / groups
    read = convolutions.images * convolutions.size * convolutions.channels / groups * element
    weights = filters * convolutions.channels / groups * convolutions.taps * element
    return groups * (read + weights) + groups * pixels * filters * element


def least_us(convolutions: Convolutions, gpu: LearnedGpu) -> Floats:
    """A bound that no kernel beats, by any algorithm."""
    at_one = (stride(convolutions) <= 1) & (convolutions.taps > 1)
    saving = np.where(at_one, np.where(convolutions.taps <= 9, 4.0, 8.0), 1.0)
    arithmetic = products(convolutions).flops / saving / gpu.flop_per_us
    return np.maximum(
        arithmetic, np.maximum(0.0, bytes_moved(convolutions) - gpu.l2_bytes) / gpu.bytes_per_us
    )


def physics_us(convolutions: Convolutions, gpu: LearnedGpu, constants: ProductConstants) -> Floats:
    """As a product, its patches read once, in µs."""
    return product.physics_us(products(convolutions), gpu, constants, bytes_moved(convolutions))


def features(convolutions: Convolutions, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of a convolution from physics, with one meaning on all GPUs."""
    own = [
        np.log2(convolutions.taps),
        stride(convolutions),
        np.log2(convolutions.size),
        np.log2(convolutions.images),
        np.log2(convolutions.channels),
        np.log2(convolutions.filters),
        np.log2(bytes_moved(convolutions) / gpu.l2_bytes),
    ]
    return np.concatenate(
        [np.stack(own, axis=1), product.features(products(convolutions), gpu, physics)], axis=1
    )
