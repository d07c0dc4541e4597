"""Training steps after a fork: how much longer they are, by the rate that a profile measures for shared memory.

    python benchmarks/copy_after_fork.py [--rounds 9]

A script and its loader workers share all pages of memory until one of them writes: the system then copies the page.
Small networks train with one thread and with one thread per core. In each round, a step before a fork is followed by
one after it, while the forked process waits. The memory of a step is that of its weights, gradients and states of Adam,
and of the tensors kept for the backward pass. The rate is measured as in a profile, in a separate process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context

import torch
from result_file import table
from rows_command import run
from torch import Tensor, nn

from skyline.capture.page_copies import copied_us_per_mb
from skyline.interval import median
from skyline.whatif.cost.shared_pages import _COPIED

_SETTLING = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A network: the memory of a step, a usual step, how much longer it takes after a fork, and the measured rate."""

    network: str
    threads: int
    memory_mb: float
    usual_ms: float
    longer_ms: float
    rate_us_per_mb: float

    @property
    def copied(self) -> float:
        """The copied memory over that of a step, by the rate."""
        return 1e3 * self.longer_ms / self.rate_us_per_mb / self.memory_mb


def _networks() -> Iterator[tuple[str, nn.Module, Tensor]]:
    deep = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
    yield "perceptron, 4,096 samples", nn.Sequential(*deep), torch.randn(4096, 512)
    wide = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048))
    yield "perceptron, 8 million weights", wide, torch.randn(32, 2048)
    convolutions = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
    )
    yield "convolutions", convolutions, torch.randn(64, 3, 32, 32)
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    yield "transformer", nn.TransformerEncoder(layer, 2), torch.randn(32, 64, 256)


def _step(network: nn.Module, given: Tensor) -> Callable[[], float]:
    """A training step that returns its time in ms."""
    optimizer = torch.optim.Adam(network.parameters())

    def step() -> float:
        began = time.perf_counter()
        optimizer.zero_grad()
        network(given).square().mean().backward()
        optimizer.step()
        return 1e3 * (time.perf_counter() - began)

    return step


def _memory_mb(network: nn.Module, step: Callable[[], float]) -> float:
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    weights = {one.untyped_storage().data_ptr(): one.nbytes for one in network.parameters()}
    kept.update(weights)
    return (sum(kept.values()) + 3 * sum(weights.values())) / 1e6


def _longer_ms(step: Callable[[], float], rounds: int) -> tuple[float, float]:
    """A usual step in ms, and by how much it is longer after a fork."""
    context = get_context("fork")
    usual, after = list[float](), list[float]()
    for _ in range(rounds):
        for _ in range(_SETTLING):
            last = step()
        usual.append(last)
        go_on = context.Event()
        worker = context.Process(target=go_on.wait)
        worker.start()
        after.append(step())
        go_on.set()
        worker.join()
    return median(usual), median([one - other for one, other in zip(after, usual, strict=True)])


def measured(rounds: int) -> list[Row]:
    rows: list[Row] = []
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        rate = median([copied_us_per_mb(threads) for _ in range(rounds)])
        for name, network, given in _networks():
            step = _step(network, given)
            memory_mb = _memory_mb(network, step)
            rows.append(Row(name, threads, memory_mb, *_longer_ms(step, rounds), rate))
    return rows


def page(rows: list[Row]) -> str:
    head = ["network", "threads", "memory", "usual step", "longer after a fork", "rate", "copied / memory"]
    body = [
        [
            row.network,
            str(row.threads),
            f"{row.memory_mb:.0f} MB",
            f"{row.usual_ms:.0f} ms",
            f"{row.longer_ms:.0f} ms",
            f"{row.rate_us_per_mb:,.0f} µs/MB",
            f"{row.copied:.2f}",
        ]
        for row in rows
    ]
    return (
        f"{table(head, body)}\n\nThe last column is the additional time divided by rate and memory. The "
        f"models of `num_workers` and `persistent_workers` use {_COPIED.value} ({_COPIED.low} to "
        f"{_COPIED.high})."
    )


if __name__ == "__main__":
    sys.exit(run("copy_after_fork", "Training steps after a fork", __doc__, measured, page, rounds=9))
