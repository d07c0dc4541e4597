"""Which further batch sizes to measure, and whether a run at one of them really had it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from skyline.source.batch_size import with_argument, with_value
from skyline.source.knob import Knob, KnobKind
from skyline.source.text import SourceText

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
        per_sample_bytes = max(0, peak_bytes - fixed_bytes) / batch_size
        fits = fixed_bytes + per_sample_bytes * size < free_bytes
        quick = size <= batch_size or step_ms * size / batch_size <= longest_step_ms
        enough_data = dataset_size is None or size <= dataset_size
        if size != batch_size and size not in chosen and fits and quick and enough_data:
            chosen.append(size)
        if len(chosen) == count:
            break
    return tuple(chosen)


def run_with(
    knob: Knob, batch_size: int, arguments: tuple[str, ...], sources: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Source overrides (real path -> text) and arguments under which the script runs at another batch size.

    ``sources`` are the texts already in force; a file that is not among them is read from disk.
    """
    if knob.kind is KnobKind.COMMAND_LINE:
        return {}, with_argument(knob, arguments, batch_size)
    real = str(Path(knob.span.file).resolve())
    text = (
        SourceText.of(knob.span.file, sources[real]) if real in sources else SourceText.read(knob.span.file)
    )
    return {real: text.apply([with_value(knob, text, batch_size)]).text}, arguments


def shows(value: int, seen: Iterable[int]) -> bool:
    """Whether a run of which these leading dimensions were seen can have had batches of this size."""
    return any(dimension == value or (value > 1 and dimension % value == 0) for dimension in seen)


def followed(knob: Knob, batch_size: int, before: Iterable[int], after: Iterable[int]) -> bool:
    """Whether what the run saw of its batch moved with the knob: from its value, or a multiple, to the new one."""
    seen_before, seen_after = set(before), set(after)
    multiples = {dimension // knob.value for dimension in seen_before if dimension % knob.value == 0}
    return any(batch_size * multiple in seen_after for multiple in multiples if multiple)
