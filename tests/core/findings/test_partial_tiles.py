"""Products whose tiles or waves are mostly empty, by sizes for which it can be worked out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.partial_tiles import RULE
from skyline.predict.gpus import gpu_named
from skyline.predict.tile_shares import product_uses, tile_shares
from skyline.trace.facts import Device
from skyline.trace.record import OperatorShape, RecordKind


def product(rows: int, inner: int, columns: int) -> OperatorShape:
    return OperatorShape(
        "aten::mm",
        ((rows, inner), (inner, columns)),
        ("float32", "float32"),
        ((rows, columns),),
        ("float32",),
        2 * rows * inner * columns,
        4 * (rows * inner + inner * columns + rows * columns),
    )


@pytest.fixture
def with_product(gpu_script):
    """Two kernels of 3 ms an iteration on an A100, of one product."""

    def made(shape: OperatorShape, kernels=(("gemm", 3000.0),) * 2):
        script = gpu_script(list(kernels))
        records = tuple(
            replace(one, shape=0) if one.kind is RecordKind.KERNEL and one.name == "gemm" else one
            for one in script.trace.records
        )
        device = Device("NVIDIA A100-SXM4-80GB", "cuda")
        return replace(
            script,
            trace=replace(script.trace, records=records, shapes=(shape,)),
            environment=replace(script.environment, device=device),
        )

    return made


def test_one_tile_on_a_large_gpu_leaves_nearly_all_of_it_idle(with_product, checked):
    small = product(32, 1024, 32)
    found = checked(RULE, with_product(small))
    shares = tile_shares(product_uses([(1.0, small)], gpu_named("A100-SXM4-80GB")))
    assert shares.filled * shares.busy < 0.1
    assert found is not None
    assert "of their tiles" in found.title
    assert found.whatif is None
    assert 0 < found.cost_ms <= 6.0 * (1 - shares.filled * shares.busy) + 0.1
    assert any("multiples of the tile size" in one.text for one in found.evidence)


def test_large_products_and_those_with_a_small_part_of_the_iteration_are_left_alone(
    with_product, profile, checked
):
    assert checked(RULE, with_product(product(8192, 8192, 8192))) is None
    brief = (("gemm", 100.0), ("elementwise", 6000.0))
    assert checked(RULE, with_product(product(32, 1024, 32), brief)) is None
    assert checked(RULE, profile) is None
