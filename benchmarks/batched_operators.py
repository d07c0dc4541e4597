"""Time operators that compute for several models at once, compared with one model after the other.

    python benchmarks/batched_operators.py [--rounds 5]

Chains of four equal layers, forward and backward, on inputs of their own: one model after the other, and all of them by
``torch.func.vmap``, in turns on one thread, in processor time. Chains on tiny tensors tell what the calls cost; the rest
is compared. The constants of ``fuse_jobs`` come from here.
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
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from skyline.whatif.catalogue.models.batched_operators import CONVOLUTIONS, DISPATCH_US, PRODUCTS
from skyline.whatif.constant import Constant

_DEPTH = 4
_JOBS = (2, 8)
_TURN_S = 0.02
_LEAST_WORK = 0.5
"""Less of a chain's time than this beyond its calls tells nothing of the work."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that keeps the shape of its input, and that shape."""

    kind: str
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


def _linear(rows: int, width: int) -> Layer:
    return Layer("products", f"linear {width}, {rows} rows", lambda: nn.Linear(width, width), (rows, width))


def _convolution(images: int, channels: int, side: int) -> Layer:
    return Layer(
        "convolutions",
        f"convolution {channels}, {images} images of {side}",
        lambda: nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        (images, channels, side, side),
    )


LAYERS = (
    _linear(64, 128), _linear(64, 512), _linear(64, 1024), _linear(1024, 96), _linear(1024, 384),
    _convolution(32, 16, 32), _convolution(32, 32, 16), _convolution(32, 64, 8), _convolution(8, 64, 32),
    Layer("others", "ReLU", nn.ReLU, (64, 4096)),
    Layer("others", "GELU", nn.GELU, (1024, 384)),
    Layer("others", "layer norm", lambda: nn.LayerNorm(384), (1024, 384)),
    Layer("others", "batch norm", lambda: nn.BatchNorm2d(16), (32, 16, 32, 32)),
)  # fmt: skip
_TINY = {
    "products": Layer("calls", "linear, tiny", lambda: nn.Linear(4, 4), (2, 4)),
    "convolutions": Layer("calls", "convolution, tiny", lambda: nn.Conv2d(4, 4, 3, padding=1, bias=False), (1, 4, 4, 4)),
    "others": Layer("calls", "layer norm, tiny", lambda: nn.LayerNorm(4), (2, 4)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A chain for so many models: one after the other, at once, and what the calls of either take."""

    kind: str
    layer: str
    jobs: int
    one_by_one_us: float
    at_once_us: float
    calls_one_by_one_us: float
    calls_at_once_us: float

    @property
    def ratio(self) -> float | None:
        """The work at once over the work one by one; None where most is calls."""
        work_us = self.one_by_one_us - self.calls_one_by_one_us
        if work_us < _LEAST_WORK * self.one_by_one_us:
            return None
        return (self.at_once_us - self.calls_at_once_us) / work_us

    @property
    def dispatch_us(self) -> float:
        """What batching adds to the calls of a layer."""
        return (self.calls_at_once_us - self.calls_one_by_one_us / self.jobs) / _DEPTH


def chains(layer: Layer, jobs: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Forward and backward of ``jobs`` chains, one after the other and at once."""
    models = [nn.Sequential(*(layer.make() for _ in range(_DEPTH))) for _ in range(jobs)]
    inputs = torch.randn(jobs, *layer.shape, requires_grad=True)
    ones = [one.detach().clone().requires_grad_() for one in inputs]
    gradient = torch.randn(jobs, *layer.shape)
    # ``stack_module_state`` takes no model without weights.
    weights, buffers = stack_module_state(models) if list(models[0].parameters()) else ({}, {})

    def one_by_one() -> None:
        for model, given, arriving in zip(models, ones, gradient, strict=True):
            model(given).backward(arriving)

    def call(weights: dict[str, Tensor], buffers: dict[str, Tensor], given: Tensor) -> Tensor:
        return functional_call(models[0], (weights, buffers), (given,))

    def at_once() -> None:
        vmap(call)(weights, buffers, inputs).backward(gradient)

    return one_by_one, at_once


def timed(ways: tuple[Callable[[], None], ...], rounds: int) -> list[float]:
    """The median µs of each way, in turns."""
    took: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for way, times in zip(ways, took, strict=True):
            began, count = time.thread_time(), 0
            while count < 2 or time.thread_time() - began < _TURN_S:
                way()
                count += 1
            if turn:
                times.append(1e6 * (time.thread_time() - began) / count)
    return [median(times) for times in took]


def measured(rounds: int) -> list[Row]:
    rows: list[Row] = []
    for jobs in _JOBS:
        calls = {kind: timed(chains(layer, jobs), rounds) for kind, layer in _TINY.items()}
        for layer in LAYERS:
            one_us, at_once_us = timed(chains(layer, jobs), rounds)
            row = Row(layer.kind, layer.name, jobs, one_us, at_once_us, *calls[layer.kind])
            print(f"{row.layer}, {jobs}: {row.ratio}", file=sys.stderr)
            rows.append(row)
    return rows


def page(rows: list[Row]) -> str:
    head = ["layer", "models", "one by one", "at once", "calls of each", "work at once over one by one"]
    body = [
        [
            row.layer,
            str(row.jobs),
            f"{row.one_by_one_us:.0f} µs",
            f"{row.at_once_us:.0f} µs",
            f"{row.calls_one_by_one_us:.0f} and {row.calls_at_once_us:.0f} µs",
            "mostly calls" if row.ratio is None else f"{row.ratio:.2f}",
        ]
        for row in rows
    ]
    said = [
        _said(rows, kind, told)
        for kind, told in (("products", PRODUCTS), ("convolutions", CONVOLUTIONS), ("others", None))
    ]
    added = sorted({row.dispatch_us for row in rows})
    said.append(
        f"Batching adds {median(added):.0f} µs to a layer ({added[0]:.0f} to {added[-1]:.0f}); the model takes "
        f"{DISPATCH_US.value:g} ({DISPATCH_US.low:g} to {DISPATCH_US.high:g})."
    )  # fmt: skip
    return f"{table(head, body)}\n\n" + "\n".join(said)


def _said(rows: list[Row], kind: str, told: Constant | None) -> str:
    ratios = sorted(row.ratio for row in rows if row.kind == kind and row.ratio is not None)
    taken = "" if told is None else f"; the model takes {told.value:g} ({told.low:g} to {told.high:g})"
    return f"{kind.capitalize()}: {median(ratios):.2f} in the middle, {ratios[0]:.2f} to {ratios[-1]:.2f}{taken}."


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = measured(options.rounds)
    figures = [asdict(row) | {"ratio": row.ratio, "dispatch_us": row.dispatch_us} for row in rows]
    title = "Operators for several models at once, and one after the other"
    print(write("batched_operators", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
