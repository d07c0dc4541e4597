"""Convolutions without TF32: as products of patches and weights, and what tells how far a real one departs.

Filters of 3 x 3 at stride one have two shorter ways after Winograd's transformation (Lavin and Gray, "Fast Algorithms
for Convolutional Neural Networks", CVPR 2016): in one kernel by blocks of 2 x 2 results, or as a batch of products with
transforms before and after, by blocks of 4 x 4. Libraries take about the soonest. Larger filters need up to 8 times
less arithmetic after Fourier's transformation, which is left to what was measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.learned import product
from skyline_predictors.learned.machine import LearnedGpu
from skyline_predictors.learned.product import BatchedProducts, ProductConstants
from skyline_predictors.shape_reading import Convolutions

Floats = NDArray[np.float64]
_TAPS = 9
"""Of the filters that libraries transform."""
_BLOCKS = ((1, 8, 16), (2, 8, 8), (2, 4, 16), (4, 4, 8), (4, 8, 4), (4, 2, 16))
"""Images, height and width of the results that one block of the single kernel computes: 128 of each of ``_FILTERS``
filters. Every grid of 7,722 such kernels on five GPUs of four generations (cuDNN 8.9) is one of these six."""
_FILTERS = 32
_FUSED_TILES = ((128, _FILTERS),)
_DIRECT_TILES = ((128, 32), (128, 64), (128, 128))
_BATCH_TILES = ((32, 128), (128, 32), (64, 64), (128, 64), (64, 128), (128, 128))
"""Tiles of the kernels that were seen on all measured GPUs, none of which cuts the inner dimension."""
_FAR = 8.0
"""Ways that take so many doublings longer than the soonest are alike for the trees."""


class ConvolutionConstants(ProductConstants, frozen=True):
    """Those of products, found for convolutions, and two of Winograd's transformation.

    In one kernel it takes ``saving`` times less arithmetic, of the 2.25 times that blocks of 2 x 2 need less.
    Transforms by themselves move their bytes at ``transform_share`` of the bandwidth; ``split_us`` are their launches.
    """

    saving: float
    transform_share: float


def stride(convolutions: Convolutions) -> Floats:
    """Of both directions together, as a factor between the sizes.

    Without padding, a filter at stride one leaves out its width less one.
    """
    side, out = np.sqrt(convolutions.size), np.sqrt(convolutions.out_size)
    at_one = out > side - np.sqrt(convolutions.taps) + 0.5
    return np.where(at_one, 1.0, np.maximum(2.0, np.round(convolutions.size / convolutions.out_size)))


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


@dataclass(frozen=True, slots=True)
class Ways:
    """Times in µs: as a product whose patches are read once, and by the two ways of Winograd's transformation."""

    direct: Floats
    fused: Floats
    batch: Floats


def ways_us(convolutions: Convolutions, gpu: LearnedGpu, constants: ConvolutionConstants) -> Ways:
    """Time of each way; infinite where Winograd's transformation does not apply."""
    whole, moved = products(convolutions), bytes_moved(convolutions)
    direct = product.whole_us(whole, gpu, constants, _DIRECT_TILES, moved)
    fused = replace(
        whole,
        rows=fused_rows(convolutions),
        columns=np.ceil(whole.columns / _FILTERS) * _FILTERS,
        inner=np.maximum(1.0, whole.inner / constants.saving),
    )
    large = convolutions.images * _blocks(convolutions, 4)
    batch = replace(whole, batch=36 * whole.batch, rows=large, inner=whole.inner / convolutions.taps)
    transforms = moved + batch.left_bytes + batch.out_bytes
    apart = transforms / (gpu.bytes_per_us * constants.transform_share) + constants.split_us
    applies = (stride(convolutions) <= 1) & (convolutions.taps == _TAPS)
    return Ways(
        direct,
        np.where(applies, product.whole_us(fused, gpu, constants, _FUSED_TILES, moved), np.inf),
        np.where(
            applies, product.whole_us(batch, gpu, constants, _BATCH_TILES, batch.total_bytes) + apart, np.inf
        ),
    )


def physics_us(convolutions: Convolutions, gpu: LearnedGpu, constants: ConvolutionConstants) -> Floats:
    """By the soonest way, in µs."""
    ways = ways_us(convolutions, gpu, constants)
    return np.minimum(ways.direct, np.minimum(ways.fused, ways.batch))


def fused_rows(convolutions: Convolutions) -> Floats:
    """Results of each filter with those that blocks of the single kernel compute beyond the edges."""
    side = np.sqrt(convolutions.out_size)
    return np.min(
        [
            images
            * high
            * wide
            * np.ceil(convolutions.images / images)
            * np.ceil(side / high)
            * np.ceil(side / wide)
            for images, high, wide in _BLOCKS
        ],
        axis=0,
    )


def _blocks(convolutions: Convolutions, edge: int) -> Floats:
    """Blocks of results of so many pixels in height and width, for one image."""
    return np.ceil(np.sqrt(convolutions.out_size) / edge) ** 2


def features(
    convolutions: Convolutions, gpu: LearnedGpu, physics: Floats, constants: ConvolutionConstants
) -> Floats:
    """Features for the departure of a convolution from physics, with one meaning on all GPUs."""
    ways = ways_us(convolutions, gpu, constants)
    own = [
        np.log2(convolutions.taps),
        stride(convolutions),
        np.log2(convolutions.size),
        np.log2(convolutions.images),
        np.log2(convolutions.channels),
        np.log2(convolutions.filters),
        np.log2(bytes_moved(convolutions) / gpu.l2_bytes),
    ]
    own += [np.minimum(_FAR, np.log2(one / physics)) for one in (ways.direct, ways.fused, ways.batch)]
    return np.concatenate(
        [np.stack(own, axis=1), product.features(products(convolutions), gpu, physics)], axis=1
    )
