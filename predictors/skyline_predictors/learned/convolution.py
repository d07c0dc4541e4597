"""Convolutions without TF32: products of patches and weights, and the features of their departure from this model.

Filters of 3 x 3 at stride one can also use Winograd's transformation (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", CVPR 2016) in two ways: in one kernel by blocks of 2 x 2 results, or as a
batch of products with transforms before and after, by blocks of 4 x 4. Libraries take about the fastest way.
Fourier transformation divides the arithmetic of larger filters by up to 8; only the trees account for it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skyline_predictors.learned import product
from skyline_predictors.learned.machine import LearnedGpu
from skyline_predictors.learned.product import BatchedProducts, ProductConstants
from skyline_predictors.shape_reading import Convolutions

Floats = NDArray[np.float64]
_TAPS = 9
"""Size of the filters to which libraries apply Winograd's transformation."""


class ConvolutionConstants(ProductConstants, frozen=True):
    """The constants of products, fitted to convolutions, and two constants of Winograd's transformation.

    In one kernel, the transformation divides the arithmetic by ``saving``; blocks of 2 x 2 allow at most
    2.25. Separate transforms move their bytes at ``transform_share`` of the bandwidth.
    """

    saving: float
    transform_share: float


def stride(convolutions: Convolutions) -> Floats:
    """The product of the strides in both directions, as the factor between the sizes.

    Without padding, a filter at stride one shortens each side by its width minus one.
    """
    side, out = np.sqrt(convolutions.size), np.sqrt(convolutions.out_size)
    at_one = out > side - np.sqrt(convolutions.taps) + 0.5
    return np.where(at_one, 1.0, np.maximum(2.0, np.round(convolutions.size / convolutions.out_size)))


def products(convolutions: Convolutions) -> BatchedProducts:
    """The convolution as products, one per group: output pixels by filters, over patches."""
    groups = convolutions.groups
    pixels, patch = (
        convolutions.images * convolutions.out_size,
        convolutions.channels / groups * convolutions.taps,
    )
    return BatchedProducts(
        *(np.maximum(1.0, one) for one in (groups, pixels, convolutions.filters / groups, patch))
    )


def bytes_moved(convolutions: Convolutions) -> Floats:
    """Bytes of images, weights and results, each counted once."""
    groups, element = convolutions.groups, convolutions.element_bytes
    pixels, filters = convolutions.images * convolutions.out_size, convolutions.filters / groups
    read = convolutions.images * convolutions.size * convolutions.channels / groups * element
    weights = filters * convolutions.channels / groups * convolutions.taps * element
    return groups * (read + weights) + groups * pixels * filters * element


def least_us(convolutions: Convolutions, gpu: LearnedGpu) -> Floats:
    """A lower bound for every kernel, whatever its algorithm, in µs."""
    at_one = (stride(convolutions) <= 1) & (convolutions.taps > 1)
    saving = np.where(at_one, np.where(convolutions.taps <= 9, 4.0, 8.0), 1.0)
    arithmetic = products(convolutions).flops / saving / gpu.flop_per_us
    return np.maximum(
        arithmetic, np.maximum(0.0, bytes_moved(convolutions) - gpu.l2_bytes) / gpu.bytes_per_us
    )


def physics_us(convolutions: Convolutions, gpu: LearnedGpu, constants: ConvolutionConstants) -> Floats:
    """The time in µs as a product that reads its patches once: the fastest way if Winograd's transformation applies."""
    whole, moved = products(convolutions), bytes_moved(convolutions)
    direct = product.plain_us(whole, gpu, constants, moved)
    small = 4 * convolutions.images * _blocks(convolutions, 2)
    fused = replace(whole, rows=small, inner=np.maximum(1.0, whole.inner / constants.saving))
    large = convolutions.images * _blocks(convolutions, 4)
    batch = replace(whole, batch=36 * whole.batch, rows=large, inner=whole.inner / convolutions.taps)
    transforms = moved + batch.left_bytes + batch.out_bytes
    apart = transforms / (gpu.bytes_per_us * constants.transform_share)
    soonest = np.minimum(
        product.plain_us(fused, gpu, constants, moved), product.plain_us(batch, gpu, constants) + apart
    )
    applies = (stride(convolutions) <= 1) & (convolutions.taps == _TAPS)
    return np.where(applies, np.minimum(direct, soonest), direct)


def _blocks(convolutions: Convolutions, edge: int) -> Floats:
    """Number of blocks of ``edge`` x ``edge`` results in one image."""
    return np.ceil(np.sqrt(convolutions.out_size) / edge) ** 2


def features(convolutions: Convolutions, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of a convolution from physics. They mean the same on all GPUs."""
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
