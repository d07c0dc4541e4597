"""Arithmetic of operators from the dimensions of their arguments, for the operators that do nearly all of it.

A multiply-add counts as two. Elementwise operators, normalisations and reductions count as 0, because they are bound
by memory. A causal mask does not halve the count, as is customary.
"""

from __future__ import annotations

import math


def is_known(name):
    """True if the operator has a formula."""
    return name in _FORMULAS


def count(name, arguments):
    """Operations of one call; ``arguments`` has dimensions for tensors, and None for values that were not recorded."""
    try:
        return int(_FORMULAS[name](arguments))
    except (TypeError, IndexError, ValueError, ZeroDivisionError):
        return 0  # called with unusual arguments: the count is unknown


def convolution(output, weight, transposed, source):
    """A convolution's forward pass: every output value (transposed: every input value) is a product with a filter."""
    size = math.prod(source) if transposed else math.prod(output)
    return 2 * size * math.prod(weight) // weight[0]


def _mm(left, right):
    return 2 * left[0] * left[1] * right[1]


def _bmm(left, right):
    return 2 * left[0] * left[1] * left[2] * right[2]


def _attention(query, key, value):
    batch = math.prod(query[:-2])
    return 2 * batch * query[-2] * key[-2] * (query[-1] + value[-1])


def _attention_backward(arguments):
    """The scores again, then the gradients of values, weights, queries and keys: five products instead of two."""
    query, key, value = arguments[1:4]
    return _attention(query, key, value) * 5 // 2


def _convolution_backward(arguments):
    """As much as the forward pass for the weight gradient, and as much again for the input gradient.

    The recording does not show if the input needs a gradient: the count of a network's first layer is twice too high.
    """
    gradient, source, weight = arguments[:3]
    return 2 * convolution(gradient, weight, bool(arguments[7]), source)


def _recurrent(arguments):
    """The steps of a recurrent layer: each step multiplies input and state by all weight matrices."""
    source = arguments[0]
    weights = [item for value in arguments[1:6] for item in (value if type(value) is list else [value])]
    matrices = [weight for weight in weights if type(weight) is tuple and len(weight) == 2]
    return 2 * source[0] * source[1] * sum(math.prod(weight) for weight in matrices)


_FORMULAS = {
    "aten::mm": lambda a: _mm(a[0], a[1]),
    "aten::addmm": lambda a: _mm(a[1], a[2]),
    "aten::_addmm_activation": lambda a: _mm(a[1], a[2]),
    "aten::_scaled_mm": lambda a: _mm(a[0], a[1]),
    "aten::_int_mm": lambda a: _mm(a[0], a[1]),
    "aten::bmm": lambda a: _bmm(a[0], a[1]),
    "aten::baddbmm": lambda a: _bmm(a[1], a[2]),
    "aten::mv": lambda a: 2 * math.prod(a[0]),
    "aten::addmv": lambda a: 2 * math.prod(a[1]),
    "aten::dot": lambda a: 2 * a[0][0],
    "aten::convolution_backward": _convolution_backward,
    "aten::mkldnn_linear": lambda a: 2 * math.prod(a[0]) * a[1][0],
    "mkldnn::_linear_pointwise": lambda a: 2 * math.prod(a[0]) * a[1][0],
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": lambda a: 2 * _recurrent(a),
    "aten::_cudnn_rnn": _recurrent,
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda a: _attention(*a[:3]),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::_scaled_dot_product_flash_attention": lambda a: _attention(*a[:3]),
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_efficient_attention": lambda a: _attention(*a[:3]),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_cudnn_attention": lambda a: _attention(*a[:3]),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward,
}
