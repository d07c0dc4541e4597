"""The class of an operator. Each class reaches its own share of the hardware's limits."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache


class OperatorClass(str, Enum):
    """Classes of operators that are calibrated together, or not at all."""

    MATRIX = "matrix"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    RECURRENT = "recurrent"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    REDUCTION = "reduction"
    EMBEDDING = "embedding"
    OPTIMIZER = "optimizer"
    COPY = "copy"
    HOST_COPY = "host copy"
    """Copies between the host's memory and the GPU's, over the bus."""


_MARKS: tuple[tuple[OperatorClass, tuple[str, ...]], ...] = (
    (OperatorClass.HOST_COPY, ("memcpy htod", "memcpy dtoh")),
    (OperatorClass.OPTIMIZER, ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach")),
    (OperatorClass.ATTENTION, ("scaled_dot_product", "flash_attention", "efficient_attention")),
    (OperatorClass.EMBEDDING, ("embedding", "index_select", "gather", "scatter", "index_add", "index_put")),
    (OperatorClass.RECURRENT, ("_rnn", "rnn_layer", "::lstm", "::gru")),
    (OperatorClass.CONVOLUTION, ("conv",)),
    (OperatorClass.SOFTMAX, ("softmax", "nll_loss", "cross_entropy")),
    (OperatorClass.NORMALIZATION, ("_norm", "norm_")),
    (OperatorClass.MATRIX, ("mm", "linear", "matmul", "bilinear", "addmv", "aten::mv", "aten::dot")),
    (
        OperatorClass.REDUCTION,
        ("::sum", "::mean", "::var", "::std", "::amax", "::amin", "::max", "::min", "::argmax", "::argmin",
         "::any", "::all", "::prod", "::cumsum", "::topk", "::sort", "pool", "::logsumexp", "::_linalg"),
    ),
    (
        OperatorClass.COPY,
        ("::copy_", "::clone", "::_to_copy", "::cat", "::stack", "::fill_", "::zero_", "::zeros", "::ones",
         "::full", "::contiguous", "::constant_pad", "::index", "::slice_backward", "::select_backward", "::arange"),
    ),
)  # fmt: skip
# These names would otherwise match the marks of other classes.
_ELEMENTWISE = ("batch_norm_elemt", "maximum", "minimum", "upsample", "_cell")


@lru_cache(maxsize=4096)
def operator_class(operator: str) -> OperatorClass:
    """The class of an operator such as ``aten::addmm``. Unknown operators count as elementwise."""
    name = operator.lower()
    if "::" not in name:
        name = f"aten::{name}"
    if any(mark in name for mark in _ELEMENTWISE):
        return OperatorClass.ELEMENTWISE
    for kind, marks in _MARKS:
        if any(mark in name for mark in marks):
            return kind
    return OperatorClass.ELEMENTWISE
