"""The time of arithmetic in compiled code: chains of plain operators, and functions, with and without the compiler.

    python benchmarks/compiled_arithmetic.py [--rounds 40]

Chains of additions, products, differences and quotients of two lengths are compiled. The difference between them is
the arithmetic alone, because both read and write the same memory. The same is done with each function, which is also
called by itself without the compiler. Times are medians, per number and core, with as many threads as there are cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from result_file import table
from rows_command import run
from torch import Tensor
from torch.nn import functional

from skyline.interval import median
from skyline.whatif.catalogue.host.fusion import _DIVIDED_PART, BEST, LIKELY, WORST
from skyline.whatif.cost.thread_scaling import gained

_SIZES = (1 << 17, 1 << 20)
_SHORT, _LONG = 4, 16
_SETTLING = 8
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": lambda given: torch.exp(-given.abs()),
    "log": lambda given: torch.log(given.abs() + 1),
    "sin": torch.sin,
    "sqrt": lambda given: torch.sqrt(given.abs()),
    "tanh": torch.tanh,
    "elu": functional.elu,
    "selu": functional.selu,
    "hardswish": functional.hardswish,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One operator: its time for each number on one core in ns, by PyTorch's own kernel and in compiled code."""

    operator: str
    numbers: int
    eager_ns: float
    compiled_ns: float


def _chain(length: int) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(given: Tensor, other: Tensor) -> Tensor:
        for _ in range(length // 4):
            given = ((given - other) * 0.9 + other) / 1.1
        return given

    return compute


def _calls(function: Callable[[Tensor], Tensor], length: int) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(given: Tensor, other: Tensor) -> Tensor:
        for _ in range(length):
            given = function(given * 0.9 + other)
        return given

    return compute


def _us(compute: Callable[..., Tensor], *given: Tensor, rounds: int) -> float:
    took: list[float] = []
    for number in range(rounds + _SETTLING):
        began = time.perf_counter()
        compute(*given)
        if number >= _SETTLING:
            took.append(1e6 * (time.perf_counter() - began))
    return median(took)


def _compiled_us(compute: Callable[..., Tensor], *given: Tensor, rounds: int) -> float:
    torch._dynamo.reset()
    return _us(torch.compile(compute, dynamic=False), *given, rounds=rounds)


@torch.no_grad()
def measured(rounds: int) -> list[Row]:
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    rows: list[Row] = []
    for numbers in _SIZES:
        given, other = torch.randn(numbers), torch.randn(numbers)
        each_ns = 1e3 / numbers / gained(_DIVIDED_PART, threads)
        eager_us = _us(_chain(_LONG), given, other, rounds=rounds) / _LONG
        short, long = (
            _compiled_us(_chain(length), given, other, rounds=rounds) for length in (_SHORT, _LONG)
        )
        rows.append(Row("plain", numbers, eager_us * each_ns, (long - short) / (_LONG - _SHORT) * each_ns))
        for name, function in _FUNCTIONS.items():
            one, four = (
                _compiled_us(_calls(function, length), given, other, rounds=rounds) for length in (1, 4)
            )
            eager_us = _us(function, given, rounds=rounds)
            rows.append(Row(name, numbers, eager_us * each_ns, (four - one) / 3 * each_ns))
    return rows


def page(rows: list[Row]) -> str:
    head = ["operator", "numbers", "PyTorch's kernel", "compiled, beyond its traffic", "ratio"]
    body = [
        [
            row.operator,
            f"{row.numbers:,}",
            f"{row.eager_ns:.2f} ns",
            f"{row.compiled_ns:.3f} ns",
            f"{row.compiled_ns / row.eager_ns:.2f}",
        ]
        for row in rows
    ]
    return (
        f"{table(head, body)}\n\nTimes are per number, on one core. The model of `compile` has "
        f"{LIKELY.plain_ns} ns for a plain operator ({BEST.plain_ns} to {WORST.plain_ns}). For a function, "
        f"in addition to its traffic, it has {LIKELY.arithmetic} ({BEST.arithmetic} to {WORST.arithmetic}) "
        f"of the time of PyTorch's kernel. If that kernel is one optimized pass, it has {LIKELY.composite} "
        f"({BEST.composite} to {WORST.composite})."
    )


if __name__ == "__main__":
    title = "Arithmetic in compiled code"
    sys.exit(run("compiled_arithmetic", title, __doc__, measured, page, rounds=40))
