"""How images lie in memory: which order their dimensions have there, and whether an operator changes it."""

from __future__ import annotations

import torch

CHANNELS_LAST = "channels last"
MIXED = "mixed"
_LITTLE = 4096
"""Elements of a tensor whose order makes no difference."""


def layout_of(name, ins, outs):
    """``channels last``, ``mixed`` where a call turns one order into another, or empty where rows come first."""
    if name.startswith("aten::convolution"):
        image, weight = ins[1:3] if "backward" in name else ins[:2]
        return CHANNELS_LAST if CHANNELS_LAST in (_order(image), _order(weight)) else ""
    orders = {order for tensor in (*ins, *outs) if (order := _order(tensor))}
    if orders == {CHANNELS_LAST}:
        return CHANNELS_LAST
    return MIXED if len(orders) > 1 else ""


def _order(tensor):
    """The order of a tensor's dimensions by their strides, empty where all orders are the same."""
    shape = tensor.shape
    if tensor.dim() < 3 or tensor.numel() < _LITTLE:
        return ""
    if tensor.dim() == 4 and (shape[1] == 1 or shape[2] * shape[3] == 1):
        return ""
    if tensor.is_contiguous():
        return "first"
    strides = [
        (stride, -place) for place, stride in enumerate(tensor.stride()) if shape[place] > 1 and stride > 0
    ]
    ordered = [-place for _, place in sorted(strides, reverse=True)]
    if ordered == sorted(ordered):
        return "first"
    dense = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return CHANNELS_LAST if dense else f"other {ordered}"
