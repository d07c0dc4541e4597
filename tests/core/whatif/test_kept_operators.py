"""The operators that the compiler leaves to PyTorch, compared with the compiler itself."""

import pytest

from skyline.whatif.catalogue.host.operator_class import CostClass, operator_class

OTHERWISE = (
    "rand",
    "uniform",
    "exponential",
    "rrelu",
    "resize_",
    "special_",
    "_amp_update_scale",
    "_cudnn_rnn",
    "miopen_rnn",
    "_efficient",
    "_embedding_bag_forward_only",
    "_sparse_coo",
    "_dyn_quant",
    "_fused_",
    "geqrf",
    "ormqr",
    "unique_",
)
"""Operators that no forward pass of a trained model on a CPU calls, and random numbers, which have another rule."""


def test_operators_without_generated_code_are_kept():
    # The compiler takes seconds to import: one worker does so, and not each of them during collection.
    lowering = pytest.importorskip("torch._inductor.lowering")
    forward = {str(one).split(".")[1] for one in lowering.fallbacks if str(one).startswith("aten.")}
    assert len(forward) > 100
    fused = {
        name
        for name in forward
        if operator_class(f"aten::{name}") is CostClass.POINTWISE
        and not name.startswith(OTHERWISE)
        and not name.endswith("backward")
    }
    assert not fused


@pytest.mark.parametrize(
    "name", ["LogcumsumexpBackward0", "IndexPutBackward0", "LinalgQrBackward0", "CummaxBackward0"]
)
def test_backward_nodes_are_classed_as_their_operators(name):
    assert operator_class(name) is CostClass.KEPT


@pytest.mark.parametrize("name", ["aten::linalg_vector_norm", "LinalgVectorNormBackward0", "aten::exp"])
def test_norms_and_functions_are_generated(name):
    assert operator_class(name) is CostClass.POINTWISE
