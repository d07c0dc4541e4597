"""The answer to a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.interval import Interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one what-if, or a combination, would bring.

    ``speedup`` is samples per second over those of the script as it stands. Where ``applicable`` is false
    the numbers are those of the parts of the question that could be answered, ``reason`` says what could
    not, and nothing is claimed about it.
    """

    name: str
    value: str
    title: str
    iteration_ms: Interval
    change_ms: Interval
    """What the change itself does to the iteration. Its spread is that of the prediction: the scatter of the
    iteration would be there with the change and without it."""
    throughput: Interval | None
    peak_bytes: Interval
    speedup: float
    applicable: bool
    reason: str | None
    semantics: Literal["exact", "numerics", "convergence"]
    basis: Literal["cpu-measured", "gpu-trace-pair", "model-only"]
    assumptions: tuple[str, ...]
    rewrite: Literal["available", "refused", "none"]
    rewrite_reason: str | None
    batch_size: int | None = None
    extrapolated: bool = False
