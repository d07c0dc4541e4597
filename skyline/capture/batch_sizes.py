"""Which further batch sizes to measure."""

from __future__ import annotations

_FACTORS = (2.0, 0.25, 4.0, 0.5, 8.0)
"""Spread wide, upward first: going up is what people ask about."""


def sizes_to_measure(
    batch_size: int,
    count: int,
    *,
    step_ms: float,
    longest_step_ms: float,
    fixed_bytes: int,
    peak_bytes: int,
    free_bytes: int,
    dataset_size: int | None,
) -> tuple[int, ...]:
    """Up to ``count`` sizes around the script's own that can be expected to fit in time and memory."""
    chosen: list[int] = []
    for factor in _FACTORS:
        size = max(1, round(batch_size * factor))
        fits = tensor_bytes(size, batch_size, fixed_bytes, peak_bytes) < free_bytes
        quick = size <= batch_size or step_ms * size / batch_size <= longest_step_ms
        enough_data = dataset_size is None or size <= dataset_size
        if size != batch_size and size not in chosen and fits and quick and enough_data:
            chosen.append(size)
        if len(chosen) == count:
            break
    return tuple(chosen)


def tensor_bytes(size: int, batch_size: int, fixed_bytes: int, peak_bytes: int) -> int:
    """What tensors can be expected to take at another size: what outlives an iteration stays as it is."""
    return fixed_bytes + max(0, peak_bytes - fixed_bytes) * size // batch_size
