"""The kind of kernel that an operator runs. Each kind has one formula for its time."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from math import prod

from skyline.trace.record import OperatorShape


class CallKind(str, Enum):
    """Kinds of kernels, each with a formula."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    GROUPED = "grouped convolution"
    DEPTHWISE = "depthwise convolution"
    ATTENTION = "attention"
    BATCH_NORM = "batch normalization"
    ROW_NORM = "row normalization"
    SOFTMAX = "softmax"
    POOL = "pooling"
    REDUCTION = "reduction"
    POINTWISE = "pointwise"
    COPY = "copy"
    GATHER = "gather"
    OPTIMIZER = "optimizer"
    FUSED = "fused"
    HOST_COPY = "host copy"
    RECURRENT = "recurrent"


CONVOLUTIONS = frozenset({CallKind.CONVOLUTION, CallKind.GROUPED, CallKind.DEPTHWISE})
_MARKS: tuple[tuple[CallKind, tuple[str, ...]], ...] = (
    (CallKind.FUSED, ("inductor::",)),
    (CallKind.HOST_COPY, ("memcpy htod", "memcpy dtoh")),
    (CallKind.OPTIMIZER, ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach")),
    (CallKind.ATTENTION, ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")),
    (CallKind.RECURRENT, ("_rnn", "rnn_layer", "::lstm", "::gru")),
    (
        CallKind.GATHER,
        ("embedding", "index", "gather", "scatter", "::sort", "::topk", "::cumsum", "grid_sampler", "_fft", "_cdist"),
    ),
    (CallKind.CONVOLUTION, ("conv",)),
    (CallKind.SOFTMAX, ("softmax", "nll_loss", "cross_entropy")),
    (CallKind.BATCH_NORM, ("batch_norm",)),
    (CallKind.ROW_NORM, ("_norm", "norm_")),
    (CallKind.PRODUCT, ("mm", "linear", "matmul", "bilinear", "addmv", "aten::mv", "aten::dot")),
    (CallKind.POOL, ("pool", "upsample", "im2col", "col2im", "unfold", "pixel_")),
    (
        CallKind.REDUCTION,
        ("::sum", "::mean", "::var", "::std", "::amax", "::amin", "::max", "::min", "::argmax", "::argmin",
         "::any", "::all", "::prod", "::logsumexp", "::_linalg", "::linalg"),
    ),
    (
        CallKind.COPY,
        ("::copy_", "::clone", "::_to_copy", "::cat", "::stack", "::fill", "::zero", "::ones",
         "::full", "::contiguous", "_pad", "slice", "select", "::arange", "::roll", "::flip",
         "::split", "::repeat", "::new_", "::_unsafe_index"),
    ),
)  # fmt: skip
_POINTWISE = ("maximum", "minimum", "batch_norm_elemt", "clamp", "masked_fill")


@lru_cache(maxsize=4096)
def _kind_of(operator: str) -> CallKind:
    name = operator.lower()
    if "::" not in name and "memcpy" not in name:
        name = f"aten::{name}"
    if any(mark in name for mark in _POINTWISE):
        return CallKind.POINTWISE
    for kind, marks in _MARKS:
        if any(mark in name for mark in marks):
            return kind
    return CallKind.POINTWISE


def call_kind(shape: OperatorShape) -> CallKind:
    """The kind of an operator call. The number of groups decides the kind of a convolution."""
    kind = _kind_of(shape.operator)
    if kind is CallKind.CONVOLUTION:
        output, image, weight = convolution_tensors(shape)
        if not image:
            return CallKind.PRODUCT if shape.flops else CallKind.COPY
        # The weights of a transposed convolution have the channels of the image first.
        if weight[0] == output[1] and image[1] > weight[1]:
            return CallKind.DEPTHWISE if weight[1] == 1 else CallKind.GROUPED
    if kind is CallKind.PRODUCT and not shape.flops:
        return CallKind.COPY
    return kind


def convolution_tensors(shape: OperatorShape) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Output, image and weights of a convolution. Empty if they are not known."""
    tensors = [size for size in shape.inputs if len(size) >= 3]
    if is_backward(shape) and len(tensors) >= 3:
        return tensors[0], tensors[1], tensors[2]
    if len(tensors) >= 2 and shape.outputs and prod(shape.outputs[0]):
        return shape.outputs[0], tensors[0], tensors[1]
    return (), (), ()


def is_backward(shape: OperatorShape) -> bool:
    """True for operators that compute gradients."""
    return "backward" in shape.operator
