"""The families of measured operators from which an operator is predicted, and the sizes that compare them."""

from __future__ import annotations

from math import log2, prod

from skyline.trace.product_output import outputs_of
from skyline.trace.record import OperatorShape

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("list", ("_foreach_mul", "_foreach_add_", "_foreach_lerp")),
    ("entropy", ("binary_cross_entropy",)),
    ("recurrent backward", ("rnn_layer_backward",)),
    ("recurrent", ("rnn_layer",)),
    ("attention backward", ("attention_backward",)),
    ("attention", ("scaled_dot_product", "flash_attention", "efficient_attention")),
    ("lookup backward", ("embedding_dense_backward", "embedding_backward", "index_add", "scatter_add")),
    ("lookup", ("embedding", "index_select", "gather")),
    ("convolution backward", ("convolution_backward", "conv_backward")),
    ("convolution", ("convolution", "conv2d", "conv1d", "conv3d")),
    ("softmax backward", ("softmax_backward",)),
    ("softmax", ("softmax",)),
    ("batch norm backward", ("batch_norm_backward",)),
    ("batch norm", ("batch_norm",)),
    ("norm backward", ("layer_norm_backward", "group_norm_backward")),
    ("norm", ("layer_norm", "group_norm", "rms_norm")),
    ("batched product", ("::bmm", "::baddbmm")),
    ("product", ("::addmm", "::mm", "::linear", "::addmv", "::mv")),
    ("pooling backward", ("pool2d_with_indices_backward", "pool2d_backward", "pool_backward")),
    ("pooling", ("pool",)),
    ("pointwise", ("dropout_backward",)),
    ("dropout", ("dropout", "bernoulli")),
    ("sum", ("::sum", "::mean", "::var", "::amax", "::max", "::min", "::argmax", "::norm", "::linalg_vector")),
    ("reorder", ("::clone", "::contiguous", "::cat", "::stack")),
    ("copy", ("::copy_", "::_to_copy", "::zero", "::fill", "::ones", "::full", "::constant_pad")),
    (
        "smooth",
        ("gelu", "tanh", "sigmoid", "silu", "::exp", "::log", "::erf", "::sin", "::cos", "::pow", "elu", "softplus"),
    ),
)  # fmt: skip
_OTHERWISE = "pointwise"
_LIGHT_BACKWARD = ("threshold_backward", "binary_cross_entropy_backward", "sigmoid_backward", "tanh_backward")
"""Backward operators that read their inputs once and do little arithmetic on them."""
_UNMEASURED = (
    "_foreach_",
    "_fused_",
    "_backward",
    "rnn",
    "lstm",
    "gru",
    "sort",
    "topk",
    "nll_loss",
    "cross_entropy",
    "upsample",
)
"""Operators without a family of their own that do not behave like a single pass over the input."""


def family_of(shape: OperatorShape) -> str | None:
    """The family whose measured operators predict this one. None if no measured operator is similar."""
    family = _named(shape)
    if family is not None and family.startswith("convolution") and is_grouped(shape):
        return f"grouped {family}"
    return family


def _named(shape: OperatorShape) -> str | None:
    name = shape.operator.lower()
    if name.endswith(_LIGHT_BACKWARD):
        return _OTHERWISE
    for family, marks in _FAMILIES:
        if any(mark in name for mark in marks):
            return family
    return None if any(mark in name for mark in _UNMEASURED) else _OTHERWISE


def features(family: str, shape: OperatorShape) -> tuple[float, ...]:
    """Sizes as powers of two, equally many for all operators of a family. Distances between operators use these."""
    if family in ("product", "batched product"):
        return _product(shape)
    if "convolution" in family:
        return _convolution(shape)
    if family.startswith("recurrent"):
        (steps, batch, inside), width = shape.inputs[0], shape.inputs[2][-1]
        return _log(steps), _log(batch), _log(inside), _log(width)
    if family.startswith("attention"):
        *lead, length, width = shape.inputs[0] if len(shape.inputs[0]) > 1 else (1, *shape.inputs[0])
        return _log(prod(lead)), _log(length), _log(width)
    if family == "list":
        return _log(len(shape.inputs)), _log(
            sum(prod(one) for one in shape.inputs) / max(1, len(shape.inputs))
        )
    largest = max((*shape.inputs, *shape.outputs), key=prod, default=())
    elements = prod(largest)
    return _log(elements), _log(largest[-1] if largest else 1)


def _product(shape: OperatorShape) -> tuple[float, ...]:
    outputs = outputs_of(shape)
    output = outputs[0] if outputs else ()
    *lead, rows, columns = output if len(output) > 1 else (1, *(output or (1,)))
    inner = shape.flops / (2 * max(1, prod(output)))
    return _log(prod(lead)), _log(rows), _log(columns), _log(inner), _odd(columns) + _odd(round(inner))


def convolved(shape: OperatorShape) -> tuple[tuple[int, ...], ...] | None:
    """Output, image and weight."""
    tensors = [one for one in shape.inputs if len(one) >= 3]
    if "backward" in shape.operator.lower() and len(tensors) > 2:
        return tuple(tensors[:3])
    if len(tensors) > 1 and shape.outputs:
        return shape.outputs[0], tensors[0], tensors[1]
    return None


def is_grouped(shape: OperatorShape) -> bool:
    """True where channels are convolved in groups. Ungrouped convolutions have fast kernels."""
    found = convolved(shape)
    if found is None:
        return False
    output, image, weight = found
    # The weight of a transposed convolution has the channels of the image first.
    return weight[0] == output[1] and weight[1] < image[1]


def _convolution(shape: OperatorShape) -> tuple[float, ...]:
    found = convolved(shape)
    if found is None:
        return (0.0,) * 6
    output, image, weight = found
    pixels = output[0] * prod(output[2:])
    # Depthwise convolutions have one input channel per filter, whatever the number of channels.
    sizes = (_log(pixels), _log(weight[0]), _log(weight[1]), _log(prod(weight[2:])), _log(image[1]))
    return *sizes, _odd(weight[0]) + _odd(image[1])


def _odd(size: int) -> float:
    """0 for a multiple of eight, else the added distance: libraries have slower kernels for other sizes."""
    return 0.0 if size % 8 == 0 else 1.5


def _log(value: float) -> float:
    return log2(max(1.0, value))
