"""How long fused attention runs: two products whose result in between never leaves the multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from skyline.trace.shape import OperatorShape
from skyline_predictors.memory_levels import Floats, Levels, together
from skyline_predictors.number_format import ELEMENT_BYTES

_FORWARD_SHARE, _BACKWARD_SHARE = 0.8, 0.65
"""Of what plain products sustain, heads of 128: softmax runs in between, and the backward pass makes five products with
less reuse. Dao, "FlashAttention-2" (ICLR 2024), §4: up to 73 % and 63 % of an A100's stated peak."""
_FULL_HEAD = 128
_NARROW_SHARE = 0.8
"""Heads of 64 reach this share of what heads of 128 do, in the figures of the same paper."""
_QUERIES = 128
"""Queries that one block works on; every block draws all keys and values."""
_OVERLAP = 4.0


def attention_us(shapes: Sequence[OperatorShape], number_format: str, levels: Levels) -> Floats:
    """By arithmetic, in waves of blocks of queries, and by what each level delivers, whichever takes longest, in µs."""
    element = ELEMENT_BYTES.get(number_format, 4)
    return np.array([_one(shape, element, levels) for shape in shapes])


def _one(shape: OperatorShape, element_bytes: int, levels: Levels) -> float:
    backward = "backward" in shape.operator.lower()
    tensors = [size for size in shape.inputs if len(size) == 4]
    query, key = (
        (tensors[1:3] if backward else tensors[:2])
        if len(tensors) > 2
        else (tensors or [(1, 1, 1, 1)])[:1] * 2
    )
    head = max(1, query[-1])
    # Which of the two middle dimensions counts the heads depends on the operator: their product does not.
    blocks = max(1.0, prod(query) / head / _QUERIES)
    waves = max(1.0, blocks / float(levels.multiprocessors))
    full = np.ceil(waves) / waves if waves < 8 else 1.0
    share = (_BACKWARD_SHARE if backward else _FORWARD_SHARE) * (1.0 if head >= _FULL_HEAD else _NARROW_SHARE)
    busy = min(1.0, blocks / float(levels.multiprocessors))
    compute = shape.flops / (float(levels.flop_per_us) * share) * (full if busy >= 1 else 1 / busy)
    moved = shape.bytes_moved or element_bytes * sum(prod(size) for size in (*shape.inputs, *shape.outputs))
    keys_bytes = 2.0 * element_bytes * prod(key)
    repeats = max(1.0, prod(query) / max(1, prod(key)) * _length(query) / _QUERIES)
    drawn = moved + keys_bytes * repeats
    return float(
        together(
            _OVERLAP,
            np.array(compute),
            np.array(drawn) / levels.l2_bytes_per_us,
            np.array(float(moved)) / levels.memory_bytes_per_us,
        )
    )


def _length(size: Sequence[int]) -> int:
    """The longer of the two middle dimensions is taken for the sequence."""
    return max(size[1], size[2]) if len(size) == 4 else 1
