"""The cost of calls under autocast on a CPU, in units of a small operator: casts, and products in bfloat16.

    python benchmarks/autocast_calls.py [--rounds 9]

Each chain repeats one operator on few numbers, so that the time of an operator is the time of its call, in the
forward and in the backward pass. All kinds take turns. The model of ``amp`` takes both figures from here. Products
have two sizes: oneDNN computes the larger ones, and PyTorch itself computes the smaller ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from result_file import table
from rows_command import run
from torch import Tensor

_LENGTH = 20
_ROWS, _FEW_ROWS, _WIDTH = 100, 8, 16
"""oneDNN computes products of more than 16 * 16 * 16 multiplications, such as 100 * 16 * 16."""
_CALLS, _SETTLING = 30, 5
_SMALL, _CAST = "small operator", "cast"


@dataclass(frozen=True, slots=True)
class Kind:
    """One repeated step: its change of a tensor, its number of operators, and the number of rows of the tensor."""

    name: str
    change: Callable[[Tensor, Tensor], Tensor]
    operators: int = 1
    dtype: torch.dtype = torch.float32
    rows: int = _ROWS


def _cast_twice(given: Tensor, _: Tensor) -> Tensor:
    return given.to(torch.bfloat16).to(torch.float32)


KINDS = (
    Kind(_SMALL, lambda given, _: torch.sigmoid(given)),
    Kind(_CAST, _cast_twice, operators=2),
    Kind("product, float32", torch.matmul),
    Kind("product, bfloat16", torch.matmul, dtype=torch.bfloat16),
    Kind("small product, float32", torch.matmul, rows=_FEW_ROWS),
    Kind("small product, bfloat16", torch.matmul, dtype=torch.bfloat16, rows=_FEW_ROWS),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Median time of one operator of a chain in µs, in a forward pass and in its backward pass."""

    name: str
    forward_us: float
    backward_us: float


def measured(rounds: int) -> list[Row]:
    """All kinds in turns."""
    torch.manual_seed(0)
    tensors = [
        (
            torch.randn(kind.rows, _WIDTH, dtype=kind.dtype, requires_grad=True),
            (0.1 * torch.randn(_WIDTH, _WIDTH)).to(kind.dtype).requires_grad_(),
        )
        for kind in KINDS
    ]
    turns = [[_turn(kind, *given) for kind, given in zip(KINDS, tensors, strict=True)] for _ in range(rounds)]
    found: list[Row] = []
    for number, kind in enumerate(KINDS):
        passes = (median(turn[number][each] for turn in turns) for each in (0, 1))
        forward_us, backward_us = (1e6 * took / (_LENGTH * kind.operators) for took in passes)
        found.append(Row(kind.name, forward_us, backward_us))
    return found


def _turn(kind: Kind, given: Tensor, weight: Tensor) -> tuple[float, float]:
    """Median seconds of a chain's forward pass, and of the backward pass."""
    forward: list[float] = []
    backward: list[float] = []
    for call in range(_SETTLING + _CALLS):
        given.grad = weight.grad = None
        begin = time.perf_counter()
        result = given
        for _ in range(_LENGTH):
            result = kind.change(result, weight)
        middle = time.perf_counter()
        result.backward(torch.ones_like(result))
        if call >= _SETTLING:
            forward.append(middle - begin)
            backward.append(time.perf_counter() - middle)
    return median(forward), median(backward)


def page(rows: list[Row]) -> str:
    """The rows, also in units of a small operator, and the two figures of the model."""
    by_name = {row.name: row for row in rows}
    small, cast = by_name[_SMALL], by_name[_CAST]
    lines = [
        [
            row.name,
            f"{row.forward_us:.2f} µs",
            f"{row.forward_us / small.forward_us:.2f}",
            f"{row.backward_us:.2f} µs",
            f"{row.backward_us / small.backward_us:.2f}",
        ]
        for row in rows
    ]
    head = ["operator", "forward", "small operators", "backward", "small operators"]
    further = [
        (narrow.forward_us - wide.forward_us, (narrow.backward_us - wide.backward_us) / 2)
        for wide, narrow in (
            (by_name[f"{size}, float32"], by_name[f"{size}, bfloat16"])
            for size in ("product", "small product")
        )
    ]
    words = (
        f"The unit is the time of a small operator. A cast takes {cast.forward_us / small.forward_us:.2f} "
        f"units in a forward pass and {cast.backward_us / small.backward_us:.2f} in a backward pass. In "
        f"bfloat16, a product that oneDNN computes takes {further[0][0] / small.forward_us:.1f} units (of a "
        "forward pass) longer than in float32, and each of the two products of its backward pass "
        f"{further[0][1] / small.forward_us:.1f} units longer. A small product takes "
        f"{further[1][0] / small.forward_us:.1f} and {further[1][1] / small.forward_us:.1f} units longer."
    )
    return f"{table(head, lines)}\n\n{words}"


def main() -> int:
    """Measure and write the page."""
    return run("autocast_calls", "Calls under autocast", __doc__, measured, page, rounds=9)


if __name__ == "__main__":
    sys.exit(main())
