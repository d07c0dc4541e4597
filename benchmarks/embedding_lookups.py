"""Lookups of embeddings counted in a few iterations, compared with their true distributions, and the cost of counting.

Rows are drawn from known distributions and looked up in a table, as in a script. The pass of a profile counts them.
The share that it gives for the hottest hundredth and tenth of the rows is compared with the true share, by number of
iterations. The processor time of iterations in the pass is compared with iterations outside of it, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import nn

from skyline.capture.child.values.values_pass import ValuesPass
from skyline.trace.tensor_values import TensorValues, hot_at
from skyline.units import format_share

ROWS, WIDTH, LOOKUPS = 50_000, 32, 1024
ITERATIONS = (2, 8, 32, 64)
SHARES = (0.01, 0.1)
LONG = 1e9


@dataclass(frozen=True, slots=True)
class Seen:
    """One pass over a table. The shares are in the order of ``SHARES``."""

    distribution: str
    iterations: int
    seen: tuple[float, ...]
    true: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def held(self) -> int:
        """The number of true shares inside their range."""
        return sum(a <= true <= b for a, true, b in zip(self.low, self.true, self.high, strict=True))


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of an iteration outside of the pass, the ratio in the pass to outside, and the end of the pass."""

    model: str
    iteration_ms: float
    ratio: float
    end_ms: float


def distributions() -> dict[str, torch.Tensor]:
    """The probability of each row, by name of the distribution."""
    ranks = torch.arange(1, ROWS + 1, dtype=torch.double)
    cubes = (ranks / ROWS) ** (1 / 3)
    found = {f"Zipf, exponent {exponent}": ranks**-exponent for exponent in (0.8, 1.05, 1.3)}
    found["a cubed random number, as in examples/recommender.py"] = torch.diff(cubes, prepend=torch.zeros(1))
    found["even"] = torch.ones(ROWS)
    return {name: chance / chance.sum() for name, chance in found.items()}


def looked_up(name: str, chance: torch.Tensor, iterations: int) -> Seen:
    """The result of ``iterations`` iterations on one table, in which popular rows have random places."""
    words = nn.Embedding(ROWS, WIDTH)
    optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
    places = torch.randperm(ROWS)
    values = ValuesPass([(None, optimizer)], iterations, LONG)
    with torch.no_grad():
        for _ in range(iterations):
            words(places[torch.multinomial(chance, LOOKUPS, replacement=True)])
            values.end_iteration()
    [found] = msgspec.convert(values.end(), TensorValues).tables
    order = chance.sort(descending=True).values.cumsum(0)
    hot = [hot_at(found.hot, share * found.size_bytes) for share in SHARES]
    return Seen(
        name,
        iterations,
        tuple(one.hit_share for one in hot),
        tuple(float(order[int(share * ROWS) - 1]) for share in SHARES),
        tuple(one.least_share for one in hot),
        tuple(one.most_share for one in hot),
    )


class Recommender(nn.Module):
    """Eight tables and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ROWS, WIDTH) for _ in range(8)])
        self.top = perceptron(8 * WIDTH, 512, 256, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        parts = [one(batch[:, place]) for place, one in enumerate(self.tables)]
        return self.top(torch.cat(parts, dim=1))


def perceptron(*sizes: int) -> nn.Sequential:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def convolutions() -> nn.Sequential:
    layers = [
        layer for pair in pairwise((3, 32, 64, 64)) for layer in (nn.Conv2d(*pair, 3, padding=1), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def cost(
    name: str, model: nn.Module, batch: Callable[[], torch.Tensor], rounds: int, iterations: int
) -> Cost:
    """Iterations with and without the pass in turns. The first of each turn counts only for the zeros in it."""
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)

    def step(values: ValuesPass | None) -> float:
        given = batch()
        began = time.process_time()
        loss = model(given).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if values is None:
            optimizer.step()
        else:
            values.after_backward([loss])
            values.before_step(optimizer)
            optimizer.step()
            values.after_step(optimizer)
            values.end_iteration()
        return 1e3 * (time.process_time() - began)

    step(None)
    plain: list[float] = []
    ratios: list[float] = []
    ends: list[float] = []
    for _ in range(rounds):
        before = [step(None) for _ in range(iterations)]
        values = ValuesPass([(None, optimizer)], iterations, LONG)
        within = [step(values) for _ in range(iterations)]
        began = time.process_time()
        values.end()
        ends.append(1e3 * (time.process_time() - began))
        plain += before
        ratios.append(sum(within) / sum(before))
    return Cost(name, median(plain), median(ratios), median(ends))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    machine = Machine.here()
    warn_when_busy(machine)
    seen = [
        looked_up(name, chance, count) for name, chance in distributions().items() for count in ITERATIONS
    ]
    tables, words = Recommender(), lambda: torch.randint(ROWS, (1024, 8))
    images, features = (lambda: torch.rand(32, 3, 32, 32)), (lambda: torch.rand(256, 512))
    costs = [
        cost("8 tables and a perceptron, 2 iterations", tables, words, asked.rounds, 2),
        cost("3 convolutions, 1 iteration", convolutions(), images, asked.rounds, 1),
        cost("a perceptron, 1 iteration", perceptron(512, 1024, 1024, 10), features, asked.rounds, 1),
    ]
    rows = [
        [one.distribution, str(one.iterations)]
        + [
            text
            for value, low, high, true in zip(one.seen, one.low, one.high, one.true, strict=True)
            for text in (
                f"{format_share(value)} ({format_share(low)} to {format_share(high)})",
                format_share(true),
            )
        ]
        for one in seen
    ]
    head = ["rows drawn by", "iterations", "hottest 1 %, seen", "true", "hottest 10 %, seen", "true"]
    spent = [
        [one.model, f"{one.iteration_ms:.1f}", f"{one.ratio - 1:+.1%}", f"{one.end_ms:.0f}"] for one in costs
    ]
    errors = {
        count: [
            a - b for one in seen if one.iterations == count for a, b in zip(one.seen, one.true, strict=True)
        ]
        for count in ITERATIONS
    }
    said = "; ".join(
        f"{count} iterations: from {100 * min(found):+.0f} to {100 * max(found):+.0f} points"
        for count, found in errors.items()
    )
    body = (
        f"A table of {ROWS:,} rows, {LOOKUPS:,} lookups in an iteration. Counted minus true share, {said}. "
        "With few lookups the share is too small, because hot rows that were not looked up count as cold. "
        f"The range contains the true share in {sum(one.held for one in seen)} of {len(seen) * len(SHARES)} "
        "cases.\n\n"
        f"{table(head, rows)}\n\n"
        f"Processor time on one thread, median of {asked.rounds} rounds in turns:\n\n"
        f"{table(['model', 'an iteration, ms', 'more in the pass', 'end of the pass, ms'], spent)}"
    )
    figures = {"seen": [asdict(one) for one in seen], "costs": [asdict(one) for one in costs]}
    print(write("embedding_lookups", "Lookups of embeddings", machine, body, figures, results=asked.results))


if __name__ == "__main__":
    main()
