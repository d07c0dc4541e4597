"""Physics of products: tiles that memory feeds, and the tiles that libraries have."""

from dataclasses import replace

import numpy as np
import pytest

from skyline.predict.gpus import gpu_named
from skyline_predictors.learned import product
from skyline_predictors.learned.fitting import START
from skyline_predictors.learned.machine import LearnedGpu, machine
from skyline_predictors.learned.product import BatchedProducts


def products(*sizes: tuple[int, int, int, int]) -> BatchedProducts:
    return BatchedProducts(*np.array(sizes, dtype=float).T)


def gpu(name: str) -> LearnedGpu:
    return machine(gpu_named(name), START.product.rates)


def test_tiles_read_their_operands_from_memory_where_no_cache_holds_them():
    """A large batched product on a P4 is bound by its 192 GB/s: tiles of 64 x 128 do 21 flop for each byte."""
    large, p4 = products((8, 8192, 8192, 8192)), gpu("P4")
    (us,) = product.physics_us(large, p4, START.product)
    assert large.flops[0] / us < 21.4 * p4.bytes_per_us < 0.9 * p4.issued_flop_per_us
    roomy = replace(p4, l2_bytes=1e10)
    assert product.physics_us(large, roomy, START.product)[0] < 0.9 * us


def test_small_products_of_a_batch_find_their_operands_in_the_cache():
    small, p4 = products((1024, 512, 512, 64)), gpu("P4")
    (us,) = product.physics_us(small, p4, START.product)
    (without,) = product.physics_us(small, replace(p4, l2_bytes=1e10), START.product)
    assert us == pytest.approx(without, rel=0.05)


def test_layers_on_pascal_run_in_the_narrow_tiles_of_its_library():
    """Measured on a P100: 6.2 to 7.2 TFLOP/s in layers, up to 8.7 in batches."""
    layer, batch = products((1, 8192, 4096, 1024), (16, 2048, 2048, 1024)), gpu("P100")
    first, second = layer.flops / product.physics_us(layer, batch, START.product) / 1e6
    assert first < 7.5 < second


def test_larger_tiles_are_no_slower_than_smaller_ones():
    known = {1024: 0.3, 4096: 0.9, 8192: 0.5, 16384: 0.4, 32768: 0.4}
    levelled = {size: max(share for area, share in known.items() if area <= size) for size in known}
    some = products((1, 4096, 4096, 4096), (64, 512, 512, 64))
    times = [
        product.physics_us(some, gpu("V100"), replace_share(shares)).tolist() for shares in (known, levelled)
    ]
    assert times[0] == times[1]


def replace_share(shares: dict[int, float]) -> product.ProductConstants:
    kept = {name: getattr(START.product, name) for name in START.product.__struct_fields__}
    return product.ProductConstants(**{**kept, "tile_share": shares})
