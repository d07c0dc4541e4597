"""The largest of timm's batch sizes that can train in a GPU's memory, predicted and as published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from operator_table import OperatorTable
from predicted_steps import RowResult

from skyline.predict.gpus import gpu_named

_CONTEXT_BYTES = 1.0e9
"""Memory of CUDA's context with the code of cuDNN and cuBLAS, and of the workspace of cuBLAS, in bytes."""
_FRAGMENTS = 0.06
"""The share of memory that PyTorch's allocator loses to fragmentation."""


def smaller(batch: int) -> int:
    """The next batch size that timm tries when one does not fit: powers of two and the halves between them."""
    power = 1 << ((batch - 1).bit_length() - 1) if batch > 1 else 0
    step = max(power // 2, 1)
    return power + (batch - power - 1) // step * step if batch > 1 else 0


def largest(table: OperatorTable, first: int, memory_bytes: float) -> int:
    """The largest batch size that is predicted to fit, in timm's sequence from ``first`` down."""
    room = (memory_bytes - _CONTEXT_BYTES) * (1 - _FRAGMENTS)
    batch = first
    while batch > 0 and table.peak_bytes(batch) > room:
        batch = smaller(batch)
    return batch


def fits(results: Sequence[RowResult]) -> dict[str, int]:
    """The number of rows whose batch size was predicted exactly, one step off, and further off."""
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
