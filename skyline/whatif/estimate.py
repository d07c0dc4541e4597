"""The answer to a question."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from skyline.interval import Interval
from skyline.whatif.curve_point import CurvePoint


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
    one_off_s: Interval | None = None
    """What it costs once and not in each iteration, such as compiling; None for nothing to speak of."""
    break_even_iterations: int | None = None
    """After how many iterations that is paid back; None where there is nothing to pay, or nothing is gained."""
    occasional_ms: float = 0.0
    """What of the iteration is its share of something that only few do, such as starting workers in each epoch."""
    values: tuple[str, ...] = ()
    """Of a single what-if that applies the values it offers, ``value`` among them; empty where there is no choice."""
    curve: tuple[CurvePoint, ...] = ()
    """The batch-size curve under these what-ifs, only where it was asked for."""

    @property
    def typical_ms(self) -> Interval:
        """The iteration in the middle of all, which is what can be measured in turns."""
        of, less = self.iteration_ms, self.occasional_ms
        return Interval(of.value - less, of.low - less, of.high - less)


def break_even(one_off_s: Interval | None, change_ms: Interval) -> int | None:
    """After how many iterations a cost that comes once is paid back by what each iteration gains."""
    if one_off_s is None or change_ms.value >= 0:
        return None
    return ceil(1e3 * one_off_s.value / -change_ms.value)
