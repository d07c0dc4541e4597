"""Which of timm's batch sizes is the largest that trains in a GPU's memory, predicted and as it was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from operator_table import OperatorTable
from predicted_steps import RowResult

from skyline.predict.gpus import gpu_named

_CONTEXT_BYTES = 1.0e9
"""CUDA's context with the code of cuDNN and cuBLAS, and the workspace that the latter keeps."""
_FRAGMENTS = 0.06
"""The share that PyTorch's allocator loses to fragments."""


def smaller(batch: int) -> int:
    """The next batch size that timm tries when one does not fit: powers of two and the halves between them."""
    power = 1 << ((batch - 1).bit_length() - 1) if batch > 1 else 0
    step = max(power // 2, 1)
    return power + (batch - power - 1) // step * step if batch > 1 else 0


def largest(table: OperatorTable, first: int, memory_bytes: float) -> int:
    """The largest batch size that is believed to fit, beginning with ``first``."""
    room = (memory_bytes - _CONTEXT_BYTES) * (1 - _FRAGMENTS)
    batch = first
    while batch > 0 and table.peak_bytes(batch) > room:
        batch = smaller(batch)
    return batch


def fits(results: Sequence[RowResult]) -> dict[str, int]:
    """Count the rows with the predicted batch size, with one that is a step off, and with one further off."""
    if not results:
        return {}
    first = max(result.row.batch for result in results)
    found: Counter[str] = Counter()
    for result in results:
        memory = gpu_named(result.row.gpu).memory_bytes
        told = largest(result.table, first, memory)
        steps = _steps(first)
        apart = abs(steps.index(told) - steps.index(result.row.batch)) if result.row.batch in steps else 99
        found["same" if apart == 0 else "one step off" if apart == 1 else "further off"] += 1
    return {name: found[name] for name in ("same", "one step off", "further off")}


def _steps(first: int) -> list[int]:
    found = [first]
    while found[-1] > 0:
        found.append(smaller(found[-1]))
    return found
