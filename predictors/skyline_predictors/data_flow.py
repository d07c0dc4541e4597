"""Kernels that no node asks for and that follow from how nodes are joined: copies, and sums of gradients.

Operator graphs of measured data name no edges, so that the joints are told from sizes and from the order of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skyline.trace.shape import OperatorShape
from skyline_predictors.node_operators import call_name, pointwise
from skyline_predictors.operator_graph import GraphNode, Size

_REORDER = frozenset({"permute", "transpose"})
_NEW_VALUES = frozenset(
    {"VECln", "VECadd", "VECmul", "VECgelu", "VECrelu", "dropout", "contiguous", "misc", "EMBEDDING"}
)
Kernels = dict[int, tuple[OperatorShape, ...]]
"""By the number of the node that they belong to."""


def operand_copies(nodes: Sequence[GraphNode]) -> Kernels:
    """Copies of operands of products of four dimensions and more, which need them in order.

    Those that come out of a permutation are copied: forward for the product, and backward, where their gradients go
    back through the permutation, for what stands before it.
    """
    reordered: dict[Size, bool] = {}
    found: Kernels = {}
    for node in nodes:
        if node.kind == "BMM":
            operands = [size for size in node.inputs if len(size) > 3 and reordered.get(size)]
            found[node.number] = tuple(pointwise("clone", (size,), size) for size in operands)
        if prod(node.output) > 1:
            reordered[node.output] = call_name(node) in _REORDER
    return found


def gradient_sums(nodes: Sequence[GraphNode]) -> Kernels:
    """Where a tensor is used several times, its gradients are added up; what was split is put together again.

    A sum of two tensors of one size is a branch that comes back: its other end used the same tensor twice. Linear
    layers one after the other with an input of one size share it.
    """
    found: Kernels = {}
    shared: Size | None = None
    for node in nodes:
        size = node.output
        if node.kind == "VECadd" and sum(one == size for one in node.inputs) > 1 and prod(size) > 1:
            found[node.number] = (_sum(size),)
        elif node.kind == "Linear" and node.inputs:
            (source,) = [one for one in node.inputs if len(one) > 1][:1] or [node.inputs[0]]
            if source == shared:
                found[node.number] = (_sum(source),)
            shared = source
        elif call_name(node) == "split" and node.inputs:
            whole = max(node.inputs, key=prod)
            found[node.number] = (pointwise("cat", (whole,), whole),)
        if shared is not None and size == shared and node.kind in _NEW_VALUES:
            shared = None
    return found


def _sum(size: Size) -> OperatorShape:
    return pointwise("add", (size, size), size)
