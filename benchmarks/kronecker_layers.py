"""Parts of linear layers with Kronecker products as weights, and whole layers: the basis of ``kronecker`` on a CPU.

    python benchmarks/kronecker_layers.py [--rounds 12]

The parts are measured by number of blocks: the product with the smaller factor, both of its gradients, a strided copy
by the number of consecutive numbers, and the addition of a bias. Each is timed on one thread and on all threads, on
tensors in the last-level cache. Then whole layers run forward and backward, in turns with the plain layer from whose
time the model predicts them. The constants of ``skyline.whatif.cost.small_factors`` come from here. The process keeps
its memory (``MALLOC_*``), because the system's time to provide blocks is another cost.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from factored_layers import LAYER, pass_us, predicted_us
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY

from skyline.interval import ENDS, End, Interval, median
from skyline.rewrite.catalogue.kronecker import snippet
from skyline.whatif.catalogue.models.kronecker_factors import KroneckerLinear, LargerFactor, Structure
from skyline.whatif.cost.factored_layers import Split
from skyline.whatif.cost.narrow_rate import HALF_RATE
from skyline.whatif.cost.small_factors import SmallFactor, added_us

BLOCKS = (2, 4, 8, 16, 32)
NUMBERS = (1 << 16, 1 << 20)
RUNS = (2, 4, 8, 16, 32, 64, 128)
_FEW, _MANY, _FEW_UP_TO = 4, 64, 32
"""The other side of a block: many columns for each of a few blocks, and the reverse in the copy back."""
SIZES = (
    (2560, 128, 512),
    (2560, 512, 128),
    (256, 256, 256),
    (1024, 96, 384),
    (64, 1024, 1024),
    (64, 3072, 128),
)
"""Rows, inputs and outputs: an encoder of routes, points, a small GPT, and layers with few rows."""
_LEAST_S = 2e-3
_BYTES = 8.0
"""Bytes per number of a plain operator, which reads one number and writes one."""
_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Part:
    """Time of a part in ns per number, on one thread and on all threads."""

    part: str
    blocks: int
    numbers: int
    one_ns: float
    all_ns: float


@dataclass(frozen=True, slots=True)
class Row:
    """A pass of a layer: its time in µs with one weight and with two factors, and the prediction over the latter."""

    rows: int
    inputs: int
    outputs: int
    blocks: int
    backward: bool
    one_us: float
    two_us: float
    predicted: float
    low: float
    high: float


def quickest_us(run: Callable[[], object], rounds: int) -> float:
    """The time of a run in µs. The fastest round counts, because other programs only add time."""
    took: list[float] = []
    for turn in range(rounds + 1):
        count, began = 0, time.perf_counter()
        while count < 1 or time.perf_counter() - began < _LEAST_S:
            run()
            count += 1
        if turn:
            took.append(1e6 * (time.perf_counter() - began) / count)
    return min(took)


def on_threads(run: Callable[[], object], rounds: int, threads: int) -> tuple[float, float]:
    """The time on one thread and on all threads, in µs."""
    torch.set_num_threads(1)
    one = quickest_us(run, rounds)
    torch.set_num_threads(threads)
    return one, quickest_us(run, rounds)


def parts(rounds: int, threads: int) -> list[Part]:
    """All parts, by the number of blocks or of consecutive numbers."""
    found: list[Part] = []

    def add(part: str, blocks: int, numbers: int, run: Callable[[], object]) -> None:
        one_us, all_us = on_threads(run, rounds, threads)
        found.append(Part(part, blocks, numbers, 1e3 * one_us / numbers, 1e3 * all_us / numbers))

    for numbers in NUMBERS:
        for blocks in BLOCKS:
            given, factor = torch.randn(numbers // blocks, blocks), torch.randn(blocks, blocks)
            arriving = torch.randn(numbers // blocks, blocks)
            add("product", blocks, numbers, lambda a=given, b=factor: a.mm(b.t()))
            add("gradient of its input", blocks, numbers, lambda a=arriving, b=factor: a.mm(b))
            add("gradient of its weight", blocks, numbers, lambda a=arriving, b=given: a.t().mm(b))
        for run in RUNS:
            beside = _FEW if run > _FEW_UP_TO else _MANY
            turned = torch.randn(numbers // (beside * run), run, beside).transpose(1, 2)
            add("copy", run, numbers, turned.contiguous)
        rows, bias = torch.randn(numbers // 256, 256), torch.randn(256)
        add("bias", 256, numbers, lambda a=rows, b=bias: a + b)
    return found


def layers(rounds: int, rate: Interval) -> list[Row]:
    """Whole layers, in turns with the plain ones. ``rate`` is the rate of plain operators, in bytes per µs."""
    found: list[Row] = []
    for rows, inputs, outputs in SIZES:
        for blocks in BLOCKS[:4]:
            structure = Structure(blocks)
            if not structure.divides(inputs, outputs):
                continue
            space = {"torch": torch, "nn": torch.nn, "inputs": inputs, "outputs": outputs}
            exec(snippet(str(blocks)), space)
            plain, made = torch.nn.Linear(inputs, outputs), space["layer"]
            given, gradient = torch.randn(rows, inputs, requires_grad=True), torch.randn(rows, outputs)
            for layer in (plain, made) * _WARM_UP:
                pass_us(layer, given, gradient)
            pairs = [(pass_us(plain, given, gradient), pass_us(made, given, gradient)) for _ in range(rounds)]
            known = KroneckerLinear(LAYER, inputs, outputs, structure)
            for back in (False, True):
                now, then = (min(pair[which][back] for pair in pairs) for which in (0, 1))
                ends = [predicted(known, rows, now, rate, end, back=back) / then for end in ENDS]
                found.append(Row(rows, inputs, outputs, blocks, back, now, then, *ends))
    return found


def predicted(
    layer: KroneckerLinear, rows: int, one_us: float, rate: Interval, end: End, *, back: bool
) -> float:
    """The prediction of the what-if without calls: the large product by its operations, and the other parts."""
    split = Split.of(LargerFactor.of(layer), rows, back=back)
    small = SmallFactor(rows, layer.inputs, layer.outputs, layer.structure.blocks)
    more_us = added_us(small, torch.get_num_threads(), rate, end, back=back)
    # The process keeps its memory, so blocks cost nothing.
    return predicted_us(one_us, split, getattr(HALF_RATE, end), 0.0) + more_us


def page(found: list[Part], whole: list[Row], threads: int) -> str:
    head = ["part", "blocks or run", "numbers", "1 thread", f"{threads} threads"]
    listed = [
        [
            one.part,
            str(one.blocks),
            f"{one.numbers:,}",
            f"{one.one_ns:.2f} ns",
            f"{one.all_ns:.2f} ns",
        ]
        for one in found
    ]
    titles = ["rows", "weight", "blocks", "pass", "one weight, µs", "two, µs", "predicted / measured"]
    passes = [
        [f"{one.rows:,}", f"{one.inputs} x {one.outputs}", str(one.blocks), "backward" if one.backward else "forward",
         f"{one.one_us:,.0f}", f"{one.two_us:,.0f}", f"{one.predicted:.2f} [{one.low:.2f}, {one.high:.2f}]"]
        for one in whole
    ]  # fmt: skip
    errors = [abs(one.predicted - 1) for one in whole]
    inside = sum(one.low <= 1 <= one.high for one in whole)
    return (
        "The fastest round of each counts. Times are per number of the part.\n\n"
        f"{table(head, listed)}\n\n{table(titles, passes)}\n\nThe median error of {len(whole)} passes is "
        f"{median(errors):.0%}. {inside} are in the range. The calls that the what-if adds are left out."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if not os.environ.keys() >= KEEPS_MEMORY.keys():
        # The C library reads these when a process starts.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPS_MEMORY})
    torch.manual_seed(0)
    machine = Machine.here()
    warn_when_busy(machine)
    threads = torch.get_num_threads()
    found = parts(asked.rounds, threads)
    plain_ns = next(one.all_ns for one in found if one.part == "bias" and one.numbers == NUMBERS[-1])
    whole = layers(asked.rounds, Interval.exact(_BYTES * 1e3 / plain_ns))
    figures = {"parts": [asdict(one) for one in found], "layers": [asdict(one) for one in whole]}
    title = "Parts of linear layers with Kronecker products as weights"
    print(
        write("kronecker_layers", title, machine, page(found, whole, threads), figures, results=asked.results)
    )


if __name__ == "__main__":
    main()
