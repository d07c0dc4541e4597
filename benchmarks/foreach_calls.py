"""The cost of an optimizer step on a CPU by number of tensors: one by one, all at once (`foreach`), and fused.

    python benchmarks/foreach_calls.py [--rounds 7]

Updating a tensor of 8 numbers needs almost no time, so that the time of a step is the cost of its calls. Lines through
the steps of 2 to 14 tensors give the fixed cost of a step and the cost of each tensor. The model of
``fused_optimizer`` uses these figures in units of a tensor that is updated one by one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
import torch
from result_file import table
from rows_command import run

_COUNTS = (2, 6, 10, 14, 60)
_FEW = 14
"""Largest number of tensors for the lines: more tensors do not fit into the first-level cache."""
_NUMBERS, _CALLS, _SETTLING = 8, 60, 5
_OPTIMIZERS = (
    ("Adam", {}),
    ("SGD", {"momentum": 0.9}),
    ("RMSprop", {"momentum": 0.9}),
)
_FORMS = ({"foreach": False}, {"foreach": True}, {"fused": True})
_HAS_FUSED = ("Adam", "SGD")


@dataclass(frozen=True, slots=True)
class Row:
    """Median time of an optimizer's step in µs by its form. None if it has no such form."""

    optimizer: str
    tensors: int
    alone_us: float
    foreach_us: float
    fused_us: float | None


def optimizer_of(
    name: str, options: dict[str, float], form: dict[str, bool], count: int
) -> torch.optim.Optimizer:
    """An optimizer of ``count`` small tensors that have gradients."""
    tensors = [torch.zeros(_NUMBERS, requires_grad=True) for _ in range(count)]
    for tensor in tensors:
        tensor.grad = torch.ones(_NUMBERS)
    made: torch.optim.Optimizer = getattr(torch.optim, name)(tensors, lr=1e-3, **options, **form)
    return made


def measured(rounds: int) -> list[Row]:
    """All forms in turns."""
    rows: list[Row] = []
    for name, options in _OPTIMIZERS:
        for count in _COUNTS:
            forms = _FORMS if name in _HAS_FUSED else _FORMS[:2]
            optimizers = [optimizer_of(name, options, form, count) for form in forms]
            turns = [[_turn(one) for one in optimizers] for _ in range(rounds)]
            took = [1e6 * median(column) for column in zip(*turns, strict=True)]
            rows.append(Row(name, count, took[0], took[1], took[2] if len(took) > 2 else None))
    return rows


def _turn(optimizer: torch.optim.Optimizer) -> float:
    took: list[float] = []
    for call in range(_SETTLING + _CALLS):
        begin = time.perf_counter()
        optimizer.step()
        if call >= _SETTLING:
            took.append(time.perf_counter() - begin)
    return median(took)


def lines(rows: list[Row], name: str, column: str) -> tuple[float, float] | None:
    """The fixed cost of a step, and the cost of each of its tensors."""
    own = [row for row in rows if row.optimizer == name and row.tensors <= _FEW]
    times = [getattr(row, column) for row in own]
    if None in times:
        return None
    each, step = np.polyfit([row.tensors for row in own], times, 1)
    return float(step), float(each)


def page(rows: list[Row]) -> str:
    """The rows, and the lines through them in units of a tensor that is updated one by one."""
    body = [
        [
            row.optimizer,
            str(row.tensors),
            f"{row.alone_us:.0f} µs",
            f"{row.foreach_us:.0f} µs ({row.foreach_us / row.alone_us:.2f})",
            "" if row.fused_us is None else f"{row.fused_us:.0f} µs ({row.fused_us / row.alone_us:.2f})",
        ]
        for row in rows
    ]
    found: list[list[str]] = []
    figures: list[tuple[float, float, float]] = []
    for name, _ in _OPTIMIZERS:
        alone, foreach, fused = (lines(rows, name, f"{one}_us") for one in ("alone", "foreach", "fused"))
        if alone is None or foreach is None:
            continue
        unit = alone[1]
        figures.append((alone[0] / unit, foreach[0] / unit, foreach[1] / unit))
        found.append(
            [
                name,
                f"{unit:.1f} µs",
                *(f"{one:.2f}" for one in figures[-1]),
                "" if fused is None else f"{fused[0]:.0f} µs + {fused[1]:.1f} µs",
            ]
        )
    step, together, each = (fmean(column) for column in zip(*figures, strict=True))
    head = ["optimizer", "tensors", "one by one", "foreach", "fused"]
    units = ["optimizer", "a tensor by itself", "a step", "a step with foreach", "each tensor of it", "fused"]
    words = (
        f"On average, the fixed cost of a step equals the time of {step:.2f} tensors, and of {together:.2f} "
        f"tensors with `foreach`. With `foreach`, a tensor takes {each:.2f} times as long as by itself."
    )
    return f"{table(head, body)}\n\n{table(units, found)}\n\n{words}"


def main() -> int:
    """Measure and write the page."""
    return run("foreach_calls", "Calls of an optimizer's step", __doc__, measured, page, rounds=7)


if __name__ == "__main__":
    sys.exit(main())
