"""The time to call a compiled graph, and of each layer in it, from chains of small layers, eager and compiled in turns.

    python benchmarks/compiled_calls.py [--rounds 5]

Layers of 16 numbers need almost no computation, so that the time of a step is the cost of its calls. A line through
the step times of several lengths gives the cost of the graph and the cost of a layer, which has three products and two
pieces of generated code. The eager chain is the baseline.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from result_file import table
from rows_command import run
from torch import Tensor, nn

from skyline.whatif.catalogue.host.compiling import BACKWARD_CALL, FORWARD_CALL
from skyline.whatif.cost.operator_call import MOST_US

_LENGTHS = (1, 2, 4, 8, 16, 32)
_WIDTH, _ROWS = 16, 8
_ITERATIONS, _SETTLING = 200, 20
_PIECES = 5
"""Products and generated kernels of a layer, forward and backward, as the what-if counts them."""


class Chain(nn.Module):
    """Linear layers with a ReLU each."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH) for _ in range(length))

    def forward(self, given: Tensor) -> Tensor:
        """All layers, one after another."""
        for layer in self.layers:
            given = torch.relu(layer(given))
        return given


@dataclass(frozen=True, slots=True)
class Row:
    """Median µs of one chain."""

    length: int
    eager_forward_us: float
    forward_us: float
    eager_step_us: float
    step_us: float


def measured(length: int, rounds: int) -> Row:
    """Forward passes and steps of one chain, eager and compiled in turns."""
    torch.manual_seed(0)
    given = torch.randn(_ROWS, _WIDTH)
    chains = (Chain(length), Chain(length))
    chains[1].compile()

    def step(chain: Chain) -> None:
        for parameter in chain.parameters():
            parameter.grad = None
        chain(given).sum().backward()

    for chain in chains:
        for _ in range(_SETTLING):
            step(chain)
    calls: tuple[Callable[[Chain], object], ...] = (lambda chain: chain(given), step)
    found = [[_round_us(call, chain) for call in calls for chain in chains] for _ in range(rounds)]
    return Row(length, *(median(column) for column in zip(*found, strict=True)))


def _round_us(call: Callable[[Chain], object], chain: Chain) -> float:
    took: list[float] = []
    for _ in range(_ITERATIONS):
        begin = time.perf_counter()
        call(chain)
        took.append(time.perf_counter() - begin)
    return 1e6 * median(took)


def _line(rows: list[Row], column: str) -> tuple[float, float]:
    """The fixed cost of a graph, and the cost of each layer."""
    each, graph = np.polyfit([row.length for row in rows], [getattr(row, column) for row in rows], 1)
    return float(graph), float(each)


def all_lengths(rounds: int) -> list[Row]:
    """Chains of all lengths."""
    return [measured(length, rounds) for length in _LENGTHS]


def page(rows: list[Row]) -> str:
    """The rows, the lines through them, and the model's own numbers."""
    head = ["layers", "forward, eager", "compiled", "step, eager", "compiled", "ratio of the steps"]
    lines = [
        [
            str(row.length),
            *(
                f"{one:.0f} µs"
                for one in (row.eager_forward_us, row.forward_us, row.eager_step_us, row.step_us)
            ),
            f"{row.step_us / row.eager_step_us:.2f}",
        ]
        for row in rows
    ]
    forward, step, eager = (_line(rows, one) for one in ("forward_us", "step_us", "eager_step_us"))
    graph_us = FORWARD_CALL.value + BACKWARD_CALL.value
    words = (
        f"A compiled graph takes {step[0]:.0f} µs in a step, {forward[0]:.0f} µs of them in the forward "
        f"pass. Each layer adds {step[1]:.1f} µs ({step[1] / _PIECES:.1f} µs for each of its {_PIECES} "
        f"pieces). A layer of the eager chain takes {eager[1]:.1f} µs. The what-if has {graph_us:.0f} µs for "
        f"a graph and {MOST_US:.0f} µs for a piece, from larger networks on another processor. If the small "
        "operators of the profiled iteration are faster, it reduces both in proportion."
    )
    return f"{table(head, lines)}\n\n{words}"


def main() -> int:
    """Measure and write the page."""
    return run("compiled_calls", "Calls of compiled graphs", __doc__, all_lengths, page, rounds=5)


if __name__ == "__main__":
    sys.exit(main())
