"""The time of calls of a compiled graph in iterations, between a loader's batch and the loss and optimizer.

    python benchmarks/compiled_iterations.py [--rounds 30]

``compiled_calls.py`` calls one graph again and again, so that its code and data stay in the caches. In an iteration,
other work displaces them. Networks with almost no work, eager and compiled, take turns. A sum of many parameters is
one piece of generated code; a chain of layers has several. Times are also given in units of a small operator of the
backward pass. They are low percentiles, so that other work on the machine has little effect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from result_file import table
from rows_command import run
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

_WIDTH, _ROWS = 16, 8
_EACH, _SETTLING = 6, 8
_LOW = 10
"""The percentile of the times that is used."""
_OPERATORS = 40


class Sum(nn.Module):
    """Adds many parameters, in one piece of generated code."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(_WIDTH)) for _ in range(count))

    def forward(self, given: Tensor) -> Tensor:
        """Add all parameters, one after another."""
        for weight in self.weights:
            given = given + weight
        return given.tanh()


class Chain(nn.Module):
    """Linear layers with a ReLU each: two pieces and two parameters per layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH) for _ in range(count))

    def forward(self, given: Tensor) -> Tensor:
        """All layers, one after another."""
        for layer in self.layers:
            given = torch.relu(layer(given))
        return given


_NETWORKS: tuple[tuple[str, Callable[[int], nn.Module], int, int, tuple[int, ...]], ...] = (
    ("sum of parameters", Sum, 1, 0, (1, 16, 64)),
    ("chain of layers", Chain, 2, 2, (1, 4, 16)),
)
"""Each network with the parameters and pieces of one part, and its numbers of parts."""


@dataclass(frozen=True, slots=True)
class Row:
    """Low percentiles of one network in µs. ``unit_us`` is a small operator of a backward pass in the same rounds."""

    network: str
    parameters: int
    pieces: int
    eager_forward_us: float
    forward_us: float
    eager_backward_us: float
    backward_us: float
    unit_us: float


@dataclass(slots=True)
class _Training:
    """A training whose passes are timed."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Iterator[list[Tensor]]
    forward_s: list[float] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)

    def step(self) -> None:
        """One iteration."""
        given, wanted = next(self.batches)
        self.optimizer.zero_grad()
        begin = time.perf_counter()
        found = self.network(given)
        self.forward_s.append(time.perf_counter() - begin)
        loss = (found - wanted).square().mean()
        begin = time.perf_counter()
        loss.backward()
        self.backward_s.append(time.perf_counter() - begin)
        self.optimizer.step()


def _training(network: nn.Module, *, compiled: bool) -> _Training:
    if compiled:
        network.compile()
    return _Training(network, torch.optim.Adam(network.parameters(), foreach=False), _batches())


def _batches() -> Iterator[list[Tensor]]:
    samples = TensorDataset(torch.randn(64 * _ROWS, _WIDTH), torch.randn(64 * _ROWS, _WIDTH))
    while True:
        yield from DataLoader(samples, _ROWS, shuffle=True)


def _operator_s() -> float:
    given = torch.randn(_ROWS, _WIDTH, requires_grad=True)
    found = given
    for _ in range(_OPERATORS):
        found = torch.tanh(found)
    total = found.sum()
    begin = time.perf_counter()
    total.backward()
    return (time.perf_counter() - begin) / _OPERATORS


def _low_us(times_s: list[float]) -> float:
    return 1e6 * float(np.percentile(times_s, _LOW))


def all_networks(rounds: int) -> list[Row]:
    """All networks in turns."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    pairs = {
        (name, parameters * count, max(1, pieces * count)): [
            _training(build(count), compiled=compiled) for compiled in (False, True)
        ]
        for name, build, parameters, pieces, counts in _NETWORKS
        for count in counts
    }
    trainings = [one for pair in pairs.values() for one in pair]
    for one in trainings:
        for _ in range(_SETTLING):
            one.step()
        one.forward_s.clear()
        one.backward_s.clear()
    operators: list[float] = []
    for _ in range(rounds):
        operators += [_operator_s() for _ in range(_EACH)]
        for one in trainings:
            for _ in range(_EACH):
                one.step()
    unit_us = _low_us(operators)
    return [
        Row(
            name,
            parameters,
            pieces,
            _low_us(eager.forward_s),
            _low_us(compiled.forward_s),
            _low_us(eager.backward_s),
            _low_us(compiled.backward_s),
            unit_us,
        )
        for (name, parameters, pieces), (eager, compiled) in pairs.items()
    ]


def law(rows: list[Row]) -> tuple[float, float]:
    """The cost of a forward call and of each parameter, in units. A piece of generated code counts as one unit."""
    columns = np.array([[1.0, row.parameters] for row in rows])
    units = np.array([row.forward_us / row.unit_us - row.pieces for row in rows])
    call, parameter = np.linalg.lstsq(columns, units, rcond=None)[0].tolist()
    return float(call), float(parameter)


def page(rows: list[Row]) -> str:
    """The rows, and the line through the forward passes."""
    head = [
        "network",
        "parameters",
        "pieces",
        "forward, eager",
        "compiled",
        "in units",
        "backward, eager",
        "compiled",
    ]
    lines = [
        [
            row.network,
            str(row.parameters),
            str(row.pieces),
            f"{row.eager_forward_us:.0f} µs",
            f"{row.forward_us:.0f} µs",
            f"{row.forward_us / row.unit_us:.1f}",
            f"{row.eager_backward_us:.0f} µs",
            f"{row.backward_us:.0f} µs",
        ]
        for row in rows
    ]
    call, parameter = law(rows)
    words = (
        f"A unit is the time of a small operator of a backward pass: {rows[0].unit_us:.1f} µs. A piece of "
        f"generated code counts as one unit. A compiled forward pass then takes {call:.1f} units, and "
        f"{parameter:.2f} for each parameter."
    )
    return f"{table(head, lines)}\n\n{words}"


def main() -> int:
    """Measure and write the page."""
    title = "Calls of compiled graphs within iterations"
    return run("compiled_iterations", title, __doc__, all_networks, page, rounds=30)


if __name__ == "__main__":
    sys.exit(main())
