"""Measures how much faster the passes are if the optimizer's step moves less memory: the basis of its model.

    python benchmarks/optimizer_streaming.py [--rounds 8]

Trains networks of several kinds and sizes. Two optimizers train each in one process. They take turns in three forms
(operator by operator, all tensors at once, fused) and without a step at all. ``skyline.whatif.cost.optimizer_step``
counts the memory that a form moves. The result is the time that forward and backward pass save for each megabyte that
the fused form moves less. Networks whose parameters, gradients and state fit into the caches are measured as well: they
are the null.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import nn

from skyline.trace.facts import OptimizerFact
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.cost.streaming import STREAMS_FROM_BYTES, US_PER_MB

_ITERATIONS, _SETTLING = 12, 2
_FORMS = {"operators": {"foreach": False}, "at once": {"foreach": True}, "fused": {"fused": True}}
_NOTHING = "no step"
_OPTIMIZERS = {"Adam": (torch.optim.Adam, 2), "Adagrad": (torch.optim.Adagrad, 1)}
"""The optimizers, each with its number of state values per parameter."""


class Bags(nn.Module):
    """A table of embeddings summed in bags, and a perceptron on top."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(rows, 64, mode="mean")
        self.head = nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(indices))


def perceptron(width: int) -> nn.Module:
    hidden = [layer for _ in range(4) for layer in (nn.ReLU(), nn.Linear(width, width))]
    return nn.Sequential(nn.Linear(256, width), *hidden, nn.ReLU(), nn.Linear(width, 1))


def convolutions(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Conv2d(2 * width, 4 * width, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 1),
    )


Maker = tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]
CASES: dict[str, Maker] = {
    "perceptron 1024": (lambda: perceptron(1024), lambda: torch.randn(64, 256)),
    "perceptron 2048": (lambda: perceptron(2048), lambda: torch.randn(64, 256)),
    "60,000 embeddings": (lambda: Bags(60_000), lambda: torch.randint(0, 60_000, (512, 20))),
    "200,000 embeddings": (lambda: Bags(200_000), lambda: torch.randint(0, 200_000, (512, 20))),
    "perceptron 256": (lambda: perceptron(256), lambda: torch.randn(256, 256)),
    "convolutions": (lambda: convolutions(64), lambda: torch.randn(16, 3, 32, 32)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One network with one optimizer: its passes by form of the step, and the memory that the fused step saves."""

    network: str
    optimizer: str
    parameters: int
    held_bytes: int
    passes_ms: dict[str, float]
    less_mb: float

    @property
    def us_per_mb(self) -> float:
        """Time that the fused form saves in the passes, in µs per megabyte that it moves less."""
        return 1e3 * (self.passes_ms["operators"] - self.passes_ms["fused"]) / self.less_mb

    @property
    def streams(self) -> bool:
        """True if the model predicts a gain."""
        return self.held_bytes >= STREAMS_FROM_BYTES


def measured(network: str, name: str, rounds: int) -> Row:
    make, batch = CASES[network]
    kind, states = _OPTIMIZERS[name]
    model = make()
    count = sum(parameter.numel() for parameter in model.parameters())
    steps = {form: kind(model.parameters(), lr=1e-6, **options) for form, options in _FORMS.items()}
    batches = [batch() for _ in range(8)]
    took: dict[str, list[float]] = {form: [] for form in (*steps, _NOTHING)}
    for turn in range(rounds + 1):
        for form in took if turn % 2 else reversed(took):
            for number in range(_ITERATIONS):
                began = time.perf_counter()
                model(batches[number % len(batches)]).square().mean().backward()
                passes_ms = 1e3 * (time.perf_counter() - began)
                if form in steps:
                    steps[form].step()
                model.zero_grad()
                if turn and number >= _SETTLING:
                    took[form].append(passes_ms)
    fact = OptimizerFact(name, 1, len(list(model.parameters())), count, 4 * states * count, {}, None, None)
    update = update_of(fact)
    assert update is not None
    less_mb = (update.unfused_bytes - update.fused_bytes) * count / 1e6
    passes = {form: median(times) for form, times in took.items()}
    return Row(network, name, count, 4 * (2 + states) * count, passes, less_mb)


def page(rows: list[Row]) -> str:
    forms = (*_FORMS, _NOTHING)
    head = [
        "network",
        "optimizer",
        "parameters",
        *(f"passes, {form}" for form in forms),
        "moved less",
        "gain per MB",
    ]
    body = [
        [
            row.network,
            row.optimizer,
            f"{row.parameters / 1e6:.1f} M",
            *(f"{row.passes_ms[form]:.2f} ms" for form in forms),
            f"{row.less_mb:.0f} MB",
            f"{row.us_per_mb:+.1f} µs",
        ]
        for row in rows
    ]
    large = sorted(row.us_per_mb for row in rows if row.streams)
    small = [row.passes_ms["fused"] / row.passes_ms["operators"] - 1 for row in rows if not row.streams]
    return (
        f"{table(head, body)}\n\nNetworks of {STREAMS_FROM_BYTES / 1e6:.0f} MB and more: median "
        f"{median(large):.1f} µs for each MB, {large[0]:.1f} to {large[-1]:.1f}. The model has "
        f"{US_PER_MB.value:.1f} ({US_PER_MB.low:.1f} to {US_PER_MB.high:.1f}). The passes of smaller "
        f"networks changed by {', '.join(f'{one:+.1%}' for one in small)}, which is within chance."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    torch.manual_seed(0)
    rows = [measured(network, name, options.rounds) for network in CASES for name in _OPTIMIZERS]
    figures = [asdict(row) | {"us_per_mb": row.us_per_mb, "streams": row.streams} for row in rows]
    title = "Passes after an optimizer step that moves less memory"
    print(write("optimizer_streaming", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
