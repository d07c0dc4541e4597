"""The use of tiles and waves by products with sizes for which it can be worked out."""

from __future__ import annotations

import pytest

from skyline.predict.gpus import gpu_named
from skyline.predict.registry import tiling
from skyline.trace.record import OperatorShape
from skyline_predictors.constants import constants
from skyline_predictors.matrix_time import MatrixShape, Throughput, tile_times
from skyline_predictors.roofline import Roofline, tile_uses

GPU = Throughput(100, 20e6, 1e6)


def product(rows: int, inner: int, columns: int) -> OperatorShape:
    return OperatorShape(
        "aten::mm",
        ((rows, inner), (inner, columns)),
        ("bfloat16", "bfloat16"),
        ((rows, columns),),
        ("bfloat16",),
        2 * rows * inner * columns,
        2 * (rows * inner + inner * columns + rows * columns),
    )


def test_whole_tiles_are_full_and_one_row_more_empties_some() -> None:
    full, more = tile_uses(
        [MatrixShape(1, 8192, 8192, 1024), MatrixShape(1, 8192, 8193, 1024)], 2, GPU, constants().matrix
    )
    assert full.filled == 1.0
    assert more.filled < 1.0
    assert 0 < more.busy <= 1


def test_one_tile_more_than_a_wave_leaves_multiprocessors_idle() -> None:
    times = tile_times(
        [MatrixShape(400, 32, 32, 500), MatrixShape(401, 32, 32, 500)], 4, GPU, constants().matrix
    )
    smallest = times.busy[0, -1]
    assert smallest[0] == pytest.approx(1.0)
    assert smallest[1] < 0.8


def test_operators_without_a_product_have_no_use() -> None:
    relu = OperatorShape("aten::relu", ((64, 64),), ("float32",), ((64, 64),), ("float32",), 0, 32768)
    found = Roofline().tile_use([relu, product(4096, 4096, 4096)], gpu_named("h100"))
    assert found[0] is None
    assert found[1] is not None
    assert found[1].filled == 1.0


def test_an_installed_predictor_models_tiles() -> None:
    assert tiling() is not None
