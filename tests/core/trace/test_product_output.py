"""The output of a product follows from its inputs, which are all that a recording notes."""

from __future__ import annotations

import pytest

from skyline.trace.product_output import outputs_of
from skyline.trace.record import OperatorShape


def call(name: str, *inputs: tuple[int, ...], outputs: tuple[tuple[int, ...], ...] = ()) -> OperatorShape:
    return OperatorShape(f"aten::{name}", inputs, ("float32",) * len(inputs), outputs)


@pytest.mark.parametrize(
    ("shape", "output"),
    [
        (call("mm", (8, 3), (3, 5)), (8, 5)),
        (call("addmm", (5,), (8, 3), (3, 5)), (8, 5)),
        (call("addmm", (8, 5), (8, 3), (3, 5)), (8, 5)),
        (call("bmm", (4, 8, 3), (4, 3, 5)), (4, 8, 5)),
        (call("baddbmm", (4, 8, 5), (4, 8, 3), (4, 3, 5)), (4, 8, 5)),
        (call("matmul", (2, 4, 8, 3), (2, 4, 3, 5)), (2, 4, 8, 5)),
        (call("matmul", (8, 3), (4, 3, 5)), (4, 8, 5)),
        (call("linear", (2, 8, 3), (5, 3), (5,)), (2, 8, 5)),
    ],
    ids=lambda one: one.operator if isinstance(one, OperatorShape) else None,
)
def test_a_product_has_the_output_that_its_inputs_imply(
    shape: OperatorShape, output: tuple[int, ...]
) -> None:
    assert outputs_of(shape) == (output,)


@pytest.mark.parametrize(
    "shape", [call("relu", (8, 3)), call("mm", (8, 3), (4, 5)), call("linear", (8, 3), (5, 4)), call("cat")]
)
def test_nothing_is_claimed_of_other_calls(shape: OperatorShape) -> None:
    assert outputs_of(shape) == ()


def test_noted_outputs_stay() -> None:
    assert outputs_of(call("mm", (8, 3), (3, 5), outputs=((8, 5), (1,)))) == ((8, 5), (1,))
