"""What an operator was called with, and the work that follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """The shapes of one operator call; equal calls share one row of ``Trace.shapes``.

    ``inputs`` and ``outputs`` are the tensors in argument order, each as its dimensions; ``dtypes`` name the
    number format of each input (``float32``, ``bfloat16``, …), ``output_dtypes`` of each output. ``flops`` counts
    a multiply-add as two, 0 where the operator does no arithmetic worth counting. ``bytes_moved`` is what must be
    read and written at least once. ``layout`` tells how the images among the tensors lie in memory: ``channels last``,
    ``mixed`` where the operator turns one order into another, and empty where channels come first or it is not known.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    outputs: tuple[tuple[int, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    flops: int = 0
    bytes_moved: int = 0
    layout: str = ""
