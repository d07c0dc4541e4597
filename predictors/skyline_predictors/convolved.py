"""How long a convolution runs: as the product of its patches with its weights, or by one of the shorter ways.

As a product (implicit GEMM) the patches are never written: an element that several of them share is drawn from the
second-level cache once for a tile, and memory holds it once (Lym et al., "DeLTA", ISPASS 2019, §4.1-4.3). Small
filters at stride one need less arithmetic after Winograd's transformation: 2.25 times less with tiles of 2 x 2, done in
one kernel, and 4 times less with tiles of 4 x 4, for which 36 batched products and the transformed data go through
memory (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, §4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyline_predictors.memory_levels import CacheConstants, Floats, Levels
from skyline_predictors.streamed import streamed_us
from skyline_predictors.tiled_product import Products, TileConstants, product_us

_FUSED_SAVING = 2.25
_FUSED_PIXELS = (8, 16)
_FUSED_FILTERS = 32
"""What one block computes, as the launches of cuDNN's fused kernels show."""
_TRANSFORMED_TILE = 6
_TRANSFORMED_STEP = 4


@dataclass(frozen=True, slots=True)
class Convolutions:
    """Convolutions as sizes, one in each row of the arrays: ``images`` with ``channels`` each, in ``groups``.

    ``size`` and ``out_size`` are pixels of an image, ``taps`` those of a filter. ``shared`` is in how many patches a
    pixel appears. ``small`` says which ones Winograd's transformation is for: 3 x 3 at stride one.
    """

    images: Floats
    channels: Floats
    filters: Floats
    groups: Floats
    taps: Floats
    size: Floats
    out_size: Floats
    shared: Floats
    small: Floats
    element_bytes: Floats

    @property
    def flops(self) -> Floats:
        """As the definition has it; a multiply-add counts as two."""
        return 2 * self.images * self.out_size * self.filters * self.channels / self.groups * self.taps

    def towards_images(self) -> Convolutions:
        """The convolution that works out the gradient of the images: from the results back to what was read."""
        return replace(
            self,
            channels=self.filters,
            filters=self.channels,
            size=self.out_size,
            out_size=self.size,
            shared=np.minimum(self.taps, np.maximum(1.0, self.taps * self.size / self.out_size)),
        )

    def as_products(self) -> Products:
        """Output pixels by filters over patches, one product for each group."""
        return Products(
            self.groups,
            self.images * self.out_size,
            self.filters / self.groups,
            self.channels / self.groups * self.taps,
            self.element_bytes,
            self.images * self.size * self.channels / self.groups * self.element_bytes,
            self.filters / self.groups * self.channels / self.groups * self.taps * self.element_bytes,
            np.maximum(1.0, self.shared),
        )


@dataclass(frozen=True, slots=True)
class ConvolutionConstants:
    """What calibration found: ``tile`` is that of the products.

    ``fused_share`` is the share of the peak at which the fused transformation runs, ``fused_resident`` how many of its
    blocks share a multiprocessor, ``transformed_us`` the launches of the unfused one and ``transform_passes`` how
    often its data cross the bus.
    """

    tile: TileConstants
    fused_share: float
    fused_resident: float
    transformed_us: float
    transform_passes: float


def convolution_us(
    convolutions: Convolutions, levels: Levels, constants: ConvolutionConstants, cache: CacheConstants
) -> Floats:
    """The time of each convolution by the best of the ways, in µs."""
    products = convolutions.as_products()
    # Forward kernels do not split the patches among blocks.
    plain = product_us(products, levels, constants.tile, cache, splits=(1,))
    if not np.any(convolutions.small):
        return plain
    small = convolutions.small > 0
    ways = (
        plain,
        _fused(convolutions, levels, constants, cache),
        _transformed(convolutions, levels, constants, cache),
    )
    return np.where(small, np.minimum.reduce(ways), plain)


def _fused(
    convolutions: Convolutions, levels: Levels, constants: ConvolutionConstants, cache: CacheConstants
) -> Floats:
    """Blocks of 8 x 16 pixels of one image and 32 filters, which are computed whole."""
    down, across = _FUSED_PIXELS
    side = np.sqrt(convolutions.out_size)
    padded = np.ceil(side / down) * down * np.ceil(side / across) * across
    products = replace(convolutions.as_products(), rows=convolutions.images * padded)
    faster = replace(levels, flop_per_us=levels.flop_per_us * _FUSED_SAVING * constants.fused_share)
    area = down * across * _FUSED_FILTERS
    tile = replace(
        constants.tile, tile_share={area: 1.0}, resident_elements=float(area * constants.fused_resident)
    )
    return product_us(products, faster, tile, cache, ((down * across, _FUSED_FILTERS),), (1,))


def _transformed(
    convolutions: Convolutions, levels: Levels, constants: ConvolutionConstants, cache: CacheConstants
) -> Floats:
    across = np.ceil(np.sqrt(convolutions.out_size) / _TRANSFORMED_STEP)
    tiles = convolutions.images * across**2
    points = float(_TRANSFORMED_TILE**2)
    channels, filters = (
        convolutions.channels / convolutions.groups,
        convolutions.filters / convolutions.groups,
    )
    products = Products.of(points * convolutions.groups, tiles, filters, channels, convolutions.element_bytes)
    inside = convolutions.element_bytes * convolutions.groups * points * tiles
    # Transforming reads the image and writes its tiles; the results are read back and written out.
    moved = constants.transform_passes * (
        inside * (channels + filters)
        + convolutions.element_bytes
        * convolutions.images
        * (convolutions.size * convolutions.channels + convolutions.out_size * convolutions.filters)
    )
    passes = streamed_us(moved, levels, cache, constants.tile.overlap)
    return product_us(products, levels, constants.tile, cache) + passes + constants.transformed_us
