"""Time operators that compute for several models at once, compared with one model after the other.

    python benchmarks/batched_operators.py [--rounds 5]

Chains of four equal layers run forward and backward, each model on its own inputs: one model after the other, and all
by ``torch.func.vmap``, in turns on one thread, in processor time. Gradients are new in each pass, as in training.
Chains on tiny tensors give the cost of the calls. Reordering the gradients of stacked weights to the layout of the
weights is timed separately. The rest is compared. The constants of ``fuse_jobs`` come from here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from skyline.whatif.catalogue.models.batched_operators import (
    CONVOLUTION_CALL_US,
    CONVOLUTIONS,
    LAYER_NORMS,
    LOOKUP_CALL_US,
    LOSS_CALL_US,
    NORM_CALL_US,
    NORMS,
    OTHER_CALL_US,
    OTHERS,
    PRODUCT_CALL_US,
    PRODUCTS,
    STEP_CALL_US,
)
from skyline.whatif.catalogue.models.stacked_weights import TURNED_NS
from skyline.whatif.constant import Constant

_DEPTH, _DEEP = 4, 20
"""Layers of a short and a long chain. The difference gives the cost of a layer, the rest the fixed cost of a pass."""
_JOBS = (2, 8)
_TURN_S = 0.02
_TOLD = {
    "products": (PRODUCTS, PRODUCT_CALL_US),
    "convolutions": (CONVOLUTIONS, CONVOLUTION_CALL_US),
    "layer norms": (LAYER_NORMS, NORM_CALL_US),
    "batch norms": (NORMS, NORM_CALL_US),
    "others": (OTHERS, OTHER_CALL_US),
}
_CALLS_ALONE = {"losses": LOSS_CALL_US, "lookups": LOOKUP_CALL_US}
_LEAST_WORK = 0.5
"""Smallest share of a chain's time that must remain after its calls, for the work to be compared."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer whose output has the shape of its input, with that shape."""

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


def _small_convolution() -> nn.Module:
    return nn.Conv2d(4, 4, 3, padding=1, bias=False)


class _Loss(nn.Module):
    """A cross entropy that is added to its input, so that the shape stays the same."""

    targets: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("targets", torch.tensor([1, 3]))

    def forward(self, given: Tensor) -> Tensor:
        """The loss with one addition, whose cost is small."""
        return given + nn.functional.cross_entropy(given, self.targets)


class _Lookup(nn.Module):
    """An embedding that is added to the input."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.register_buffer("rows", torch.tensor([1, 3]))

    def forward(self, given: Tensor) -> Tensor:
        """The lookup with one addition."""
        return given + self.table(self.rows)


LAYERS = (
    _linear(64, 128), _linear(64, 512), _linear(64, 1024), _linear(1024, 96), _linear(1024, 384),
    _convolution(32, 16, 32), _convolution(32, 32, 16), _convolution(32, 64, 8), _convolution(8, 64, 32),
    Layer("others", "ReLU", nn.ReLU, (64, 4096)),
    Layer("others", "GELU", nn.GELU, (1024, 384)),
    Layer("layer norms", "layer norm", lambda: nn.LayerNorm(384), (1024, 384)),
    Layer("batch norms", "batch norm", lambda: nn.BatchNorm2d(16), (32, 16, 32, 32)),
)  # fmt: skip
_TINY = {
    "products": Layer("products", "linear, tiny", lambda: nn.Linear(4, 4), (2, 4)),
    "convolutions": Layer("convolutions", "convolution, tiny", _small_convolution, (1, 4, 4, 4)),
    "layer norms": Layer("layer norms", "layer norm, tiny", lambda: nn.LayerNorm(4), (2, 4)),
    "batch norms": Layer("batch norms", "batch norm, tiny", lambda: nn.BatchNorm2d(4), (2, 4, 2, 2)),
    "others": Layer("others", "ReLU, tiny", nn.ReLU, (2, 4)),
    "losses": Layer("losses", "cross entropy, tiny", _Loss, (2, 4)),
    "lookups": Layer("lookups", "embedding, tiny", _Lookup, (2, 4)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Calls:
    """The time of a layer's calls and the fixed time of a pass, for one model and for several at once."""

    kind: str
    jobs: int
    layer_us: float
    layer_at_once_us: float
    pass_us: float
    pass_at_once_us: float

    @property
    def added_us(self) -> float:
        """The time that batching adds to a layer."""
        return self.layer_at_once_us - self.layer_us

    @property
    def added_once_us(self) -> float:
        """The time that batching adds once to a pass."""
        return self.pass_at_once_us - self.pass_us


@dataclass(frozen=True, slots=True)
class Row:
    """A chain for several models: one after the other, and at once."""

    layer: str
    one_by_one_us: float
    at_once_us: float
    calls: Calls
    turned_us: float = 0.0
    """Time to reorder the gradients of one layer's weights. 0 if they are already in order."""
    turned_ns: float = 0.0
    """Time to reorder one number of the gradients."""

    @property
    def ratio(self) -> float | None:
        """The work at once over the work one by one. None if most of the time is calls."""
        calls = self.calls
        work_us = self.one_by_one_us - calls.jobs * (calls.pass_us + _DEPTH * calls.layer_us)
        if work_us < _LEAST_WORK * self.one_by_one_us:
            return None
        of_layer_us = calls.layer_at_once_us + self.turned_us
        return (self.at_once_us - calls.pass_at_once_us - _DEPTH * of_layer_us) / work_us


def chains(layer: Layer, jobs: int, depth: int = _DEPTH) -> tuple[Callable[[], None], Callable[[], None]]:
    """Forward and backward of ``jobs`` chains, one after the other and at once."""
    models = [nn.Sequential(*(layer.make() for _ in range(depth))) for _ in range(jobs)]
    inputs = torch.randn(jobs, *layer.shape, requires_grad=True)
    ones = [one.detach().clone().requires_grad_() for one in inputs]
    gradient = torch.randn(jobs, *layer.shape)
    # ``stack_module_state`` does not accept models without weights.
    weights, buffers = stack_module_state(models) if list(models[0].parameters()) else ({}, {})

    trained = [one for model in models for one in model.parameters()]

    def one_by_one() -> None:
        for one in trained:
            one.grad = None
        for model, given, arriving in zip(models, ones, gradient, strict=True):
            model(given).backward(arriving)

    def call(weights: dict[str, Tensor], buffers: dict[str, Tensor], given: Tensor) -> Tensor:
        return functional_call(models[0], (weights, buffers), (given,))

    def at_once() -> None:
        for one in weights.values():
            one.grad = None
        vmap(call)(weights, buffers, inputs).backward(gradient)

    return one_by_one, at_once


def timed(
    ways: Sequence[Callable[[], object]], rounds: int, typical: Callable[[list[float]], float]
) -> list[float]:
    """The typical µs of each way, in turns."""
    took: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for way, times in zip(ways, took, strict=True):
            began, count = time.thread_time(), 0
            while count < 2 or time.thread_time() - began < _TURN_S:
                way()
                count += 1
            if turn:
                times.append(1e6 * (time.thread_time() - began) / count)
    return [typical(times) for times in took]


def turned(width: int, jobs: int, rounds: int) -> float:
    """The time to reorder the gradients of a linear layer to the layout of its weights, in µs."""
    made = torch.randn(jobs, width, width).transpose(1, 2)
    return timed([lambda: made.clone(memory_format=torch.contiguous_format)], rounds, median)[0]


def calls_of(layer: Layer, jobs: int, rounds: int) -> Calls:
    """The calls of a tiny layer. Takes the fastest rounds, because other programs only lengthen them."""
    ways = [chains(layer, count, depth) for depth in (_DEPTH, _DEEP) for count in (1, jobs)]
    one, _, _, at_once, deep, _, _, deep_at_once = timed([way for pair in ways for way in pair], rounds, min)
    layers = _DEEP - _DEPTH
    layer_us, layer_at_once_us = (deep - one) / layers, (deep_at_once - at_once) / layers
    pass_us, pass_at_once_us = one - _DEPTH * layer_us, at_once - _DEPTH * layer_at_once_us
    return Calls(layer.kind, jobs, layer_us, layer_at_once_us, pass_us, pass_at_once_us)


def measured(rounds: int) -> tuple[list[Row], list[Calls]]:
    """The rows of all layers, and the calls of the kinds whose work is not compared."""
    rows: list[Row] = []
    others: list[Calls] = []
    for jobs in _JOBS:
        calls = {kind: calls_of(layer, jobs, rounds) for kind, layer in _TINY.items()}
        for layer in LAYERS:
            one_us, at_once_us = timed(chains(layer, jobs), rounds, median)
            turned_us = turned(layer.shape[-1], jobs, rounds) if layer.kind == "products" else 0.0
            turned_ns = 1e3 * turned_us / (jobs * layer.shape[-1] ** 2)
            rows.append(Row(layer.name, one_us, at_once_us, calls[layer.kind], turned_us, turned_ns))
            print(f"{rows[-1].layer}, {jobs}: {rows[-1].ratio}", file=sys.stderr)
        others += [calls[kind] for kind in _CALLS_ALONE]
    return rows, others


def page(rows: list[Row], others: list[Calls]) -> str:
    head = ["layer", "models", "one by one", "at once", "work at once over one by one"]
    body = [
        [
            row.layer,
            str(row.calls.jobs),
            f"{row.one_by_one_us:.0f} µs",
            f"{row.at_once_us:.0f} µs",
            "mostly calls" if row.ratio is None else f"{row.ratio:.2f}",
        ]
        for row in rows
    ]
    said: list[str] = []
    for kind, (work, call) in _TOLD.items():
        own = [row for row in rows if row.calls.kind == kind]
        ratios = [row.ratio for row in own if row.ratio is not None]
        added = _ranged([row.calls.added_us for row in own], ".0f")
        said.append(f"| {kind} | {_ranged(ratios, '.2f')} | {_told(work)} | {added} | {_told(call)} |")
    for kind, call in _CALLS_ALONE.items():
        added = _ranged([one.added_us for one in others if one.kind == kind], ".0f")
        said.append(f"| {kind} | not compared | | {added} | {_told(call)} |")
    turns = _ranged([row.turned_ns for row in rows if row.turned_ns], ".1f")
    once = _ranged([row.calls.added_once_us for row in rows], ".0f")
    return (
        f"{table(head, body)}\n\n| layers | work at once over one by one | in the model "
        "| µs that batching adds to the calls of one | in the model |\n|---|---|---|---|---|\n"
        + "\n".join(said)
        + f"\n\nBatching adds {once} µs once to a pass; in the model {_told(STEP_CALL_US)}. Reordering a "
        f"gradient to the layout of its weight takes {turns} ns per number; in the model {_told(TURNED_NS)}."
    )


def _ranged(values: list[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})" if values else "unknown"


def _told(constant: Constant) -> str:
    return f"{constant.value:g} ({constant.low:g} to {constant.high:g})"


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
    rows, others = measured(options.rounds)
    figures = [asdict(row) | {"ratio": row.ratio} for row in rows]
    figures += [{"layer": one.kind, "calls": asdict(one)} for one in others]
    title = "Operators for several models at once, and one after the other"
    print(write("batched_operators", title, machine, page(rows, others), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
