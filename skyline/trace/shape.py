"""The arguments of an operator call, and the work that follows from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """The shapes of one operator call; equal calls share one row of ``Trace.shapes``.

    ``inputs`` and ``outputs`` are the dimensions of the tensors in argument order. ``dtypes`` are the number formats of
    the inputs (``float32``, ``bfloat16``, …), ``output_dtypes`` those of the outputs. ``flops`` counts a multiply-add
    as two; 0 for operators without significant arithmetic. ``bytes_moved`` is the minimum of bytes read and written.
    ``layout`` is the memory format of the image tensors: ``channels last``, ``mixed`` if the operator converts one
    format to another, empty for channels first or if unknown.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    outputs: tuple[tuple[int, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    flops: int = 0
    bytes_moved: int = 0
    layout: str = ""
