"""Measured cases as the operator shapes that tracing meets in a script."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from skyline.calibrate.case import Case
from skyline.trace.record import OperatorShape
from skyline_predictors.kernel_row import FLOAT

_FORMATS = {"fp32": FLOAT, "tf32": "tfloat32", "bf16": "bfloat16", "fp16": "float16"}
_BYTES = {FLOAT: 4, "tfloat32": 4, "bfloat16": 2, "float16": 2}
_WITH_PLACES = ("pool", "pool_bwd")
_BYTES_OF_A_PLACE = 8
Dimensions = tuple[int, ...]
_Sizes = dict[str, int]
_Tensors = tuple[tuple[Dimensions, ...], tuple[Dimensions, ...], int]
"""Inputs, outputs and number of floating-point operations."""


def shape_of(case: Case) -> OperatorShape | None:
    """The shape as a trace shows it. None for work that no script calls by itself, such as an optimizer step."""
    if case.op not in _OPERATORS:
        return None
    name, tensors = _OPERATORS[case.op]
    inputs, outputs, flops = tensors(dict(case.sizes))
    number_format = _FORMATS.get(case.dtype, FLOAT)
    moved = _BYTES[number_format] * sum(prod(one) for one in (*inputs, *outputs))
    if case.op in _WITH_PLACES:
        # The index of each maximum, an integer of eight bytes.
        moved += _BYTES_OF_A_PLACE * prod(min(inputs + outputs, key=prod))
    return OperatorShape(
        f"aten::{name}",
        inputs,
        (number_format,) * len(inputs),
        outputs,
        (number_format,) * len(outputs),
        flops,
        moved,
    )


def _product(s: _Sizes) -> _Tensors:
    lead = (s["b"],) if "b" in s else ()
    m, n, k = s["m"], s["n"], s["k"]
    return ((*lead, m, k), (*lead, k, n)), ((*lead, m, n),), 2 * prod(lead) * m * n * k


def _linear(s: _Sizes) -> _Tensors:
    inputs, outputs, flops = _product(s)
    return ((s["n"],), *inputs), outputs, flops


def _convolution(s: _Sizes) -> _Tensors:
    across = (s["isize"] + 2 * s["pad"] - s["ksize"]) // s["stride"] + 1
    inner = s["cin"] // s.get("groups", 1)
    image = (s["b"], s["cin"], s["isize"], s["isize"])
    weight = (s["cout"], inner, s["ksize"], s["ksize"])
    output = (s["b"], s["cout"], across, across)
    return (image, weight), (output,), 2 * prod(output) * inner * s["ksize"] ** 2


def _convolution_backward(s: _Sizes) -> _Tensors:
    (image, weight), (output,), flops = _convolution(s)
    return (output, image, weight), (image, weight), 2 * flops


def _rowwise(inputs: int, outputs: int = 1) -> Callable[[_Sizes], _Tensors]:
    def tensors(s: _Sizes) -> _Tensors:
        size = (s["rows"], s["cols"])
        return (size,) * inputs, (size,) * outputs, 0

    return tensors


def _transposed(s: _Sizes) -> _Tensors:
    size = (s["cols"], s["rows"])
    return (size,), (size,), 0


def _reduced(axis: int) -> Callable[[_Sizes], _Tensors]:
    def tensors(s: _Sizes) -> _Tensors:
        return ((s["rows"], s["cols"]),), ((1, s["cols"]) if axis == 0 else (s["rows"], 1),), 0

    return tensors


def _channels(inputs: int, divided: int = 1) -> Callable[[_Sizes], _Tensors]:
    def tensors(s: _Sizes) -> _Tensors:
        image, side = (s["b"], s["cin"], s["isize"], s["isize"]), s["isize"] // divided
        return (image,) * inputs, ((s["b"], s["cin"], side, side),), 0

    return tensors


def _normalized(s: _Sizes) -> _Tensors:
    """In training, the statistics of each channel are outputs too. A predictor recognises training by them."""
    (image,), _, _ = _channels(1)(s)
    channels = (s["cin"],)
    return (image, channels, channels), (image, channels, channels), 0


def _reduced_pair(s: _Sizes) -> _Tensors:
    return ((s["rows"], s["cols"]),) * 2, ((),), 0


def _pooled_backward(s: _Sizes) -> _Tensors:
    (image,), (pooled,), _ = _channels(1, 2)(s)
    return (pooled, image), (image,), 0


def _lstm(times: int) -> Callable[[_Sizes], _Tensors]:
    def tensors(s: _Sizes) -> _Tensors:
        batch, steps, width, inside = s["b"], s["m"], s["n"], s["k"]
        weights = ((4 * width, inside), (4 * width, width), (4 * width,), (4 * width,))
        source, output, state = (steps, batch, inside), (steps, batch, width), (batch, width)
        work = 8 * steps * batch * width * (inside + width) * times
        if times == 1:
            return (source, *weights, state, state), (output, state, state), work
        return (source, *weights, output, state), (source, *weights, state, state), work

    return tensors


def _lookup(s: _Sizes) -> _Tensors:
    # The operator reads only the requested rows of the table.
    return ((s["rows"], s["cols"]), (s["rows"],)), ((s["rows"], s["cols"]),), 0


def _lookup_backward(s: _Sizes) -> _Tensors:
    return ((s["rows"], s["cols"]), (s["rows"],)), ((s["k"], s["cols"]),), 0


def _attention(times: int) -> Callable[[_Sizes], _Tensors]:
    def tensors(s: _Sizes) -> _Tensors:
        size = (1, s["b"], s["m"], s["k"])
        # A causal mask does not reduce the count, as in PyTorch's own counter.
        return (
            (size,) * (3 + 2 * (times - 1)),
            (size,) * (1 if times == 1 else 3),
            4 * s["b"] * s["m"] ** 2 * s["k"] * times,
        )

    return tensors


def _list(s: _Sizes) -> _Tensors:
    return ((s["cols"],),) * s["rows"], (), 0


_OPERATORS: dict[str, tuple[str, Callable[[_Sizes], _Tensors]]] = {
    "linear": ("addmm", _linear),
    "mm": ("mm", _product),
    "mm_t": ("mm", _product),
    "bmm": ("bmm", _product),
    "conv": ("convolution", _convolution),
    "conv_bwd": ("convolution_backward", _convolution_backward),
    **{op: (op, _rowwise(2)) for op in ("add", "mul", "div")},
    **{op: (op, _rowwise(1)) for op in ("relu", "gelu", "tanh", "exp", "sqrt", "log", "sigmoid")},
    "addu": ("add", _rowwise(1)),
    "mulu": ("mul", _rowwise(1)),
    "divu": ("div", _rowwise(1)),
    "powu": ("pow", _rowwise(1)),
    "mul_": ("mul_", _rowwise(1)),
    "add_": ("add_", _rowwise(2)),
    "lerp_": ("lerp_", _rowwise(2)),
    **{op: (op, _rowwise(3)) for op in ("addcmul_", "addcdiv_")},
    "bce": ("binary_cross_entropy", _reduced_pair),
    "relu_bwd": ("threshold_backward", _rowwise(2)),
    "gelu_bwd": ("gelu_backward", _rowwise(2)),
    "softmax": ("_softmax", _rowwise(1)),
    "softmax_bwd": ("_softmax_backward_data", _rowwise(2)),
    "ln": ("native_layer_norm", _rowwise(1)),
    "ln_bwd": ("native_layer_norm_backward", _rowwise(2)),
    "bn": ("native_batch_norm", _normalized),
    "bn_bwd": ("native_batch_norm_backward", _channels(2)),
    "pool_bwd": ("max_pool2d_with_indices_backward", _pooled_backward),
    "pool": ("max_pool2d_with_indices", _channels(1, 2)),
    "sum": ("sum", _reduced(0)),
    "mean": ("mean", _reduced(1)),
    "copy": ("copy_", _rowwise(1)),
    "transpose": ("clone", _transposed),
    "dropout": ("native_dropout", _rowwise(1, 2)),
    "bernoulli": ("bernoulli_", _rowwise(1)),
    "lstm": ("mkldnn_rnn_layer", _lstm(1)),
    "lstm_bwd": ("mkldnn_rnn_layer_backward", _lstm(2)),
    "embedding": ("embedding", _lookup),
    "embedding_bwd": ("embedding_dense_backward", _lookup_backward),
    "attention": ("_scaled_dot_product_efficient_attention", _attention(1)),
    "attention_bwd": ("_scaled_dot_product_efficient_attention_backward", _attention(2)),
    "foreach": ("_foreach_mul_", _list),
}
