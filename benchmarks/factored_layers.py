"""Linear layers with one weight and with two weights of low rank: the basis of the model of thin products.

For layers of several sizes and ranks, the forward and the backward pass are timed with one weight and with two, in
turns. The model predicts the time with two weights from the time with one. ``--half`` tries other values of the
model's constant, the narrowest side with which a product reaches half of a processor's rate.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.capture.child.facts import large_block_us_per_mb
from skyline.interval import median
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.facts import ModuleFact
from skyline.whatif.cost.factored_layers import Factored, OneWeight, Split
from skyline.whatif.cost.large_blocks import MOST_OF_A_TASK
from skyline.whatif.cost.narrow_rate import HALF_RATE
from skyline.whatif.cost.thread_scaling import CALL_US

SIZES = ((1024, 96, 384), (1024, 512, 512), (2048, 256, 1024), (512, 1024, 1024), (2048, 384, 10_000))
RANKS = (4, 8, 16, 32, 64, 128)
LAYER = ModuleFact("layer", "Linear", True, 1, True, {})
_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One layer and form: the time of a pass in µs, and the prediction with its range, over the measured time."""

    rows: int
    inputs: int
    outputs: int
    form: str
    backward: bool
    one_us: float
    two_us: float
    predicted: float
    low: float
    high: float


def pass_us(layer: torch.nn.Module, given: torch.Tensor, gradient: torch.Tensor) -> tuple[float, float]:
    """The times of one forward and one backward pass, in µs."""
    begin = time.perf_counter()
    result = layer(given)
    middle = time.perf_counter()
    result.backward(gradient)
    end = time.perf_counter()
    layer.zero_grad(set_to_none=True)
    given.grad = None
    return (middle - begin) * 1e6, (end - middle) * 1e6


def predicted_us(one_us: float, split: Split, half_rate: float, block_us_per_mb: float) -> float:
    """The time as the what-if predicts it: a call per product, its operations, and memory for large results."""
    call_us = min(CALL_US, 0.5 * one_us)
    now, then = (sum(each.work(half_rate) for each in products) for products in (split.now, split.then))
    now_us, then_us = (
        sum(
            block_us_per_mb * size / 1e6
            for one in products
            if (size := one.result_bytes("float32")) > LARGE_BYTES
        )
        for products in (split.now, split.then)
    )
    most_us = min(now_us, MOST_OF_A_TASK.value * (one_us - call_us))
    then_us *= most_us / now_us if now_us else 1.0
    return 2 * call_us + (one_us - call_us - most_us) * then / now + then_us


@dataclass(frozen=True, slots=True)
class Form:
    """A layer with two weights, in the description of the model and as a module."""

    name: str
    known: OneWeight
    layer: torch.nn.Module


def low_rank(inputs: int, outputs: int, rank: int) -> Form:
    """Two linear layers."""
    two = torch.nn.Sequential(torch.nn.Linear(inputs, rank, bias=False), torch.nn.Linear(rank, outputs))
    return Form(f"rank {rank}", Factored(LAYER, inputs, outputs, rank), two)


def forms() -> list[tuple[tuple[int, int, int], Form]]:
    """Every size in every form that has fewer numbers than the original layer."""
    found: list[tuple[tuple[int, int, int], Form]] = []
    for rows, inputs, outputs in SIZES:
        each = [low_rank(inputs, outputs, rank) for rank in RANKS]
        found += [((rows, inputs, outputs), form) for form in each if form.known.less > 0]
    return found


def measure(
    size: tuple[int, int, int], form: Form, rounds: int, halves: tuple[float, float, float]
) -> list[Row]:
    """Rows measured in turns. The fastest tenth of the rounds counts, because other programs only add time."""
    rows, inputs, outputs = size
    one, two = torch.nn.Linear(inputs, outputs), form.layer
    given, gradient = torch.randn(rows, inputs, requires_grad=True), torch.randn(rows, outputs)
    for layer in (one, two) * _WARM_UP:
        pass_us(layer, given, gradient)
    block_us_per_mb = large_block_us_per_mb("cpu")
    pairs = [(pass_us(one, given, gradient), pass_us(two, given, gradient)) for _ in range(rounds)]
    found: list[Row] = []
    for back in (False, True):
        now, then = (sorted(pair[which][back] for pair in pairs)[rounds // 10] for which in (0, 1))
        split = Split.of(form.known, rows, back=back)
        value, low, high = (predicted_us(now, split, half, block_us_per_mb) / then for half in halves)
        found.append(Row(rows, inputs, outputs, form.name, back, now, then, value, low, high))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch takes by itself")
    parser.add_argument(
        "--half", type=float, nargs=3, default=(HALF_RATE.value, HALF_RATE.low, HALF_RATE.high)
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.manual_seed(0)
    if asked.threads:
        torch.set_num_threads(asked.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    found = [row for size, form in forms() for row in measure(size, form, asked.rounds, tuple(asked.half))]
    rows = [
        [f"{one.rows:,}", f"{one.inputs} x {one.outputs}", one.form, "backward" if one.backward else "forward",
         f"{one.one_us:,.0f}", f"{one.two_us:,.0f}", f"{one.predicted:.2f} [{one.low:.2f}, {one.high:.2f}]"]
        for one in found
    ]  # fmt: skip
    head = ["rows", "weight", "form", "pass", "one weight, µs", "two, µs", "predicted / measured"]
    errors = [abs(one.predicted - 1) for one in found]
    inside = sum(one.low <= 1 <= one.high for one in found)
    body = (
        f"{torch.get_num_threads()} threads, the fastest tenth of {asked.rounds} rounds. The median error of "
        f"{len(found)} passes is {median(errors):.0%}. {inside} are in the range.\n\n{table(head, rows)}"
    )
    print(
        write(
            "factored_layers",
            "Linear layers of low rank",
            machine,
            body,
            [asdict(one) for one in found],
            results=asked.results,
        )
    )


if __name__ == "__main__":
    main()
