"""The kernels of a node in an operator graph: forward, backward, and the accumulation of gradients.

Each node launches the kernels with which PyTorch 2.1 computes it, whatever its name: a view launches nothing,
the gradient of a sum is the gradient itself, softmax's gradient takes two kernels. In data that time nodes
one by one, the gradient functions ran with their own gradients recorded (``recorded``), which makes dropout
take a longer path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape
from skyline_predictors.kernel_row import FLOAT, product, rowwise
from skyline_predictors.learned import lookup
from skyline_predictors.operator_graph import GraphNode, Size

Shapes = tuple[OperatorShape, ...]
_ELEMENT = 4
_NUMBER = re.compile(r"_\d+$")
_POINTWISE = frozenset(
    {
        "abs", "add", "clamp", "div", "eq", "exp", "fill", "full", "ge", "gt", "le", "log", "lt",
        "masked_fill", "max", "maximum", "min", "minimum", "mul", "ne", "neg", "ones", "rsqrt",
        "sqrt", "sub", "where", "zeros", "arange", "log_softmax", "sigmoid", "to_copy",
        "bernoulli",
    }
)  # fmt: skip
"""Names of calls without a kind of their own that launch one kernel over their tensors. Conversions (``to``,
``type``) are not included: everything in the data is float32 already and stays so."""
_LOOKUPS = ("embedding", "embed_", "wte", "wpe")


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The kernels of one run of a node."""

    forward: Shapes = ()
    backward: Shapes = ()
    accumulate: Shapes = ()


def node_work(node: GraphNode, *, training: bool, recorded: bool = False) -> NodeWork:
    """Kernels that a node launches. Without ``training``, forward only."""
    forward, backward = _FORWARD.get(node.kind, _other)(node), ()
    accumulate: Shapes = ()
    if training:
        if node.kind == "dropout":
            backward = _dropout_backward(node, recorded=recorded)
        elif forward or node.kind in ("Linear", "BMM"):
            backward = _BACKWARD.get(node.kind, _nothing)(node)
        accumulate = tuple(_accumulation(row.get("cols", "")) for row in node.phase("acc"))
    return NodeWork(forward, backward, accumulate)


def call_name(node: GraphNode) -> str:
    """The called function, without the number that distinguishes calls of the same function."""
    return _NUMBER.sub("", node.name)


def pointwise(name: str, inputs: Sequence[Size], output: Size, *, extra_bytes: int = 0) -> OperatorShape:
    """One kernel that reads its inputs and writes its output, each once."""
    traffic = _ELEMENT * (sum(prod(size) for size in inputs) + prod(output)) + extra_bytes
    given = tuple(inputs)
    return OperatorShape(f"aten::{name}", given, (FLOAT,) * len(given), (output,), (FLOAT,), 0, traffic)


def _nothing(node: GraphNode) -> Shapes:
    return ()


def _tensors(node: GraphNode) -> list[Size]:
    """Inputs that have more than one number."""
    found = [size for size in node.inputs if prod(size) > 1]
    return found or [node.output]


def _simple(name: str) -> Callable[[GraphNode], Shapes]:
    return lambda node: (pointwise(name, _tensors(node), node.output),)


def _products(node: GraphNode, phase: str) -> Shapes:
    found: list[OperatorShape] = []
    for row in node.phase(phase):
        if row["op"] in ("linear", "bmm"):
            batch, rows, columns, inner = (int(float(row[name] or 1)) for name in "bmnk")
            # Only the forward product adds a bias. Gradients are plain products.
            shape = product(row["op"], batch, rows, columns, inner)
            if phase == "bw" and row["op"] == "linear":
                shape = _plain(shape)
            found.append(shape)
    return tuple(found)


def _plain(shape: OperatorShape) -> OperatorShape:
    inputs = shape.inputs[-2:]
    return OperatorShape(
        "aten::mm", inputs, (FLOAT,) * 2, shape.outputs, (FLOAT,), shape.flops, shape.bytes_moved
    )


def _linear_backward(node: GraphNode) -> Shapes:
    products = _products(node, "bw")
    biased = len(node.phase("acc")) > 1
    return (*products, pointwise("sum", (node.output,), node.output[-1:])) if biased else products


def _accumulation(columns: str) -> OperatorShape:
    size = (int(float(columns or 1)),)
    return pointwise("add_", (size, size), size)


def _row(name: str) -> Callable[[GraphNode], Shapes]:
    def forward(node: GraphNode) -> Shapes:
        length = node.output[-1] if node.output else 1
        return (rowwise(name, max(1, prod(node.output) // max(1, length)), length),)

    return forward


def _lookup(node: GraphNode) -> Shapes:
    return (pointwise(lookup.OPERATOR.removeprefix("aten::"), (node.output,), node.output),)


def _lookup_backward(node: GraphNode) -> Shapes:
    """Kernels that zero the gradient of the whole table and then add rows to it."""
    table = [int(float(row["cols"])) for row in node.phase("acc") if row.get("cols")]
    zeroed = tuple(pointwise("zero_", (), (size,)) for size in table)
    return (*zeroed, pointwise("embedding_dense_backward", (node.output,), node.output))


def _divided(node: GraphNode) -> Shapes:
    return (pointwise("div", _tensors(node), node.output),)


def _mul_backward(node: GraphNode) -> Shapes:
    both = [size for size in node.inputs if prod(size) > 1]
    each = pointwise("mul", (node.output, node.output), node.output)
    return (each,) * max(1, len(both))


def _scaled_backward(node: GraphNode) -> Shapes:
    return (pointwise("mul", (node.output,), node.output),)


def _div_backward(node: GraphNode) -> Shapes:
    if len([size for size in node.inputs if prod(size) > 1]) < 2:
        return _scaled_backward(node)
    one = (node.output, node.output)
    return tuple(pointwise("div", one, node.output) for _ in range(3))


def _pow_backward(node: GraphNode) -> Shapes:
    size = node.output
    return (
        pointwise("pow", (size,), size),
        pointwise("mul", (size,), size),
        pointwise("mul", (size, size), size),
    )


def _softmax_backward(node: GraphNode) -> Shapes:
    """Kernels of softmax's gradient: PyTorch multiplies gradient and output first, then normalises over the rows."""
    size = node.output
    return (
        pointwise("mul", (size, size), size),
        pointwise("_softmax_backward_data", (size, size), size),
    )


def _norm_backward(node: GraphNode) -> Shapes:
    """Kernels of the gradient of the input, and of the weights' gradients, which read the same data again."""
    size = node.output
    return (
        pointwise("native_layer_norm_backward", (size, size), size),
        pointwise("sum", (size, size), size[-1:]),
    )


def _dropout(node: GraphNode) -> Shapes:
    # The mask has one byte for each element.
    return (pointwise("native_dropout", (node.output,), node.output, extra_bytes=prod(node.output)),)


def _dropout_backward(node: GraphNode, *, recorded: bool) -> Shapes:
    size, count = node.output, prod(node.output)
    if not recorded:
        return (pointwise("native_dropout_backward", (size,), size, extra_bytes=count),)
    return (
        pointwise("to_copy", (), size, extra_bytes=count),
        pointwise("mul", (size,), size),
        pointwise("mul", (size, size), size),
    )


def _extremum_backward(node: GraphNode) -> Shapes:
    """Kernels that share the gradient among equal elements: compare twice, halve, choose, mask."""
    size, count = node.output, prod(node.output)
    return (
        pointwise("eq", (size,), (), extra_bytes=count),
        pointwise("div", (size,), size),
        pointwise("where", (size, size), size, extra_bytes=count),
        pointwise("lt", (size,), (), extra_bytes=count),
        pointwise("masked_fill_", (size,), size, extra_bytes=count),
    )


def _through(name: str) -> Callable[[GraphNode], Shapes]:
    return lambda node: (pointwise(name, (node.output, node.output), node.output),)


def _mean_backward(node: GraphNode) -> Shapes:
    whole = max(node.inputs, key=prod, default=node.output)
    return (pointwise("div", (), whole),)


def _other(node: GraphNode) -> Shapes:
    """Kernels of calls without a kind of their own: mostly views and sizes, which launch nothing."""
    name = call_name(node)
    if (
        any(mark in name for mark in _LOOKUPS)
        and node.inputs
        and prod(node.output) > prod(node.inputs[0]) > 0
    ):
        return _lookup(node)
    if name == "reshape" and prod(node.output) > 1:
        return (pointwise("copy_", _tensors(node)[:1], node.output),)
    if name in _POINTWISE and prod(node.output) > 1:
        return (pointwise(name, [size for size in node.inputs if prod(size) > 1], node.output),)
    return ()


def _other_backward(node: GraphNode) -> Shapes:
    name = call_name(node)
    if name in ("max", "min", "maximum", "minimum"):
        return _extremum_backward(node)
    if any(mark in name for mark in _LOOKUPS):
        return _lookup_backward(node)
    return ()


_JOINED = "~"
_PASSIVE = frozenset({
    "size", "getattr", "view", "reshape", "unsqueeze", "expand", "split", "getitem", "to", "type", "float",
    "finfo", "full", "dim",
})  # fmt: skip
"""Calls of a compiled graph that do not move any values."""


def _fused(node: GraphNode) -> Shapes:
    """One kernel for the operators that a compiler fused. It reads their outer inputs and writes their outer outputs.

    Groups that only compute sizes or views launch none.
    """
    names = [_NUMBER.sub("", name) for name in node.name.split(_JOINED)]
    # The sum of two sizes belongs to the view that follows.
    sums = {
        place
        for place, name in enumerate(names[:-1])
        if name == "add" and names[place + 1] in ("view", "reshape")
    }
    computes = any(name not in _PASSIVE for place, name in enumerate(names) if place not in sums)
    if prod(node.output) <= 1 or not computes:
        return ()
    return (pointwise("fused", [size for size in node.inputs if prod(size) > 1], node.output),)


_FORWARD: dict[str, Callable[[GraphNode], Shapes]] = {
    "Linear": lambda node: _products(node, "fw"),
    "BMM": lambda node: _products(node, "fw"),
    "VECadd": _simple("add"),
    "VECaddu": _simple("add"),
    "VECmul": _simple("mul"),
    "VECmulu": _simple("mul"),
    "VECdiv": _divided,
    "VECdivu": _divided,
    "VECpow": _simple("pow"),
    "VECpowu": _simple("pow"),
    "VECrelu": _simple("relu"),
    "VECgelu": _simple("gelu"),
    "VECtanh": _simple("tanh"),
    "VECsoftmax": _row("softmax"),
    "VECln": _row("ln"),
    "where": _simple("where"),
    "rsqrt": _simple("rsqrt"),
    "mean": _simple("mean"),
    "cumsum": _simple("cumsum"),
    "count": _simple("sum"),
    "setitem": lambda node: (pointwise("index_put_", _tensors(node)[-1:], _tensors(node)[-1]),),
    "contiguous": _simple("copy_"),
    "dropout": _dropout,
    "EMBEDDING": _lookup,
    "fused": _fused,
    "getitem": _nothing,
    "Weight": _nothing,
    "output": _nothing,
    "allreduce": _nothing,
}
_BACKWARD: dict[str, Callable[[GraphNode], Shapes]] = {
    "Linear": _linear_backward,
    "BMM": lambda node: _products(node, "bw"),
    "VECmul": _mul_backward,
    "VECmulu": _scaled_backward,
    "VECdiv": _div_backward,
    "VECdivu": _scaled_backward,
    "VECpow": _pow_backward,
    "VECpowu": _pow_backward,
    "VECrelu": _through("threshold_backward"),
    "VECgelu": _through("gelu_backward"),
    "VECtanh": _through("tanh_backward"),
    "VECsoftmax": _softmax_backward,
    "VECln": _norm_backward,
    "where": _simple("where"),
    "rsqrt": _pow_backward,
    "mean": _mean_backward,
    "EMBEDDING": _lookup_backward,
    "misc": _other_backward,
}
