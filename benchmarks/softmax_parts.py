"""Products, softmax and update of a large output layer in processor time, and of the same layer as adaptive softmax.

These rows set constants of ``adaptive_softmax`` and do not score it. Times are processor time of one thread.
The C library keeps its memory, because the cost of large blocks is measured with each script and not part of these
rows.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch.nn import functional

from skyline.interval import ENDS
from skyline.trace.facts import ModuleFact
from skyline.whatif.catalogue.models.adaptive_softmax import OutputLayer, cutoffs, shares_left

LAYERS = ((100_000, 256, 128, 5000), (33_000, 200, 350, 1600), (100_000, 128, 64, 2000))
"""Classes, width, rows, and size of the head."""
FACT = ModuleFact("head", "Linear", True, 1, True, {})


@dataclass(frozen=True, slots=True)
class Row:
    """One layer and kind of labels: times of the parts in ms, and the remaining share, modelled and measured."""

    layer: tuple[int, int, int, int]
    labels: str
    products_ms: float
    softmax_ms: float
    update_ms: float
    predicted: tuple[float, ...]
    measured: float
    nearer: float
    """The update time per parameter of the adaptive layer, over the same time of the other layer."""


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_MAX`` of ``mallopt(3)``."""


def keep_memory() -> None:
    """Let glibc keep freed memory."""
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def took_ms(work: Callable[[], object]) -> float:
    """The processor time of the work, in ms."""
    begin = time.process_time()
    work()
    return 1e3 * (time.process_time() - begin)


def measure(shape: tuple[int, int, int, int], labels: str, rounds: int) -> Row:
    """Measure both forms in turns. The faster quarter of each counts."""
    classes, width, rows, head = shape
    edges = list(cutoffs(classes, head))
    full = torch.nn.Linear(width, classes)
    adaptive = torch.nn.AdaptiveLogSoftmaxWithLoss(width, classes, edges, head_bias=True)
    steps = [torch.optim.SGD(one.parameters(), lr=0.01) for one in (full, adaptive)]
    exponent = 1.0 if labels == "zipf" else 0.0
    targets = torch.multinomial(
        torch.arange(1, classes + 1, dtype=torch.float64) ** -exponent, rows, replacement=True
    )
    found: list[tuple[float, float, float, float, float]] = []
    for _ in range(rounds + 1):
        inputs = torch.randn(rows, width, requires_grad=True)
        for step in steps:
            step.zero_grad()
        logits = full(inputs)
        products = took_ms(lambda inputs=inputs: full(inputs))
        apart = logits.detach().requires_grad_()
        softmax = took_ms(lambda apart=apart: functional.cross_entropy(apart, targets).backward())
        products += took_ms(lambda logits=logits, apart=apart: logits.backward(apart.grad))
        update = took_ms(steps[0].step)
        whole = took_ms(lambda inputs=inputs: adaptive(inputs, targets).loss.backward())
        small = took_ms(steps[1].step)
        found.append((products, softmax, update, whole + small, small))
    products, softmax, update, whole, small = (
        sorted(one)[rounds // 4] for one in zip(*found[1:], strict=True)
    )
    below = [(targets < edge).double().mean().item() for edge in edges]
    layer = OutputLayer(FACT, width, classes, (rows, width))
    said: list[float] = []
    for end in ENDS:
        left = shares_left(layer, head, rows, below, end)
        ms = (
            products * left.products + softmax * left.numbers + update * left.parameters + left.calls_us / 1e3
        )
        said.append(ms / (products + softmax + update))
    sizes = [sum(one.numel() for one in module.parameters()) for module in (full, adaptive)]
    now = products + softmax + update
    return Row(
        shape, labels, products, softmax, update, tuple(said), whole / now,
        small / sizes[1] / (update / sizes[0]),
    )  # fmt: skip


def main() -> None:
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    machine = Machine.here()
    warn_when_busy(machine)
    found = [measure(shape, labels, asked.rounds) for shape in LAYERS for labels in ("zipf", "even")]
    rows = [
        [f"{one.layer[0]:,} x {one.layer[1]}", str(one.layer[2]), str(one.layer[3]), one.labels,
         f"{one.products_ms:.0f} + {one.softmax_ms:.0f} + {one.update_ms:.0f}",
         "{:.3f} [{:.3f}, {:.3f}]".format(*one.predicted), f"{one.measured:.3f}", f"{one.nearer:.2f}"]
        for one in found
    ]  # fmt: skip
    head = [
        "layer",
        "rows",
        "head",
        "labels",
        "products + softmax + update, ms",
        "modelled",
        "measured",
        "update, per number",
    ]
    body = (
        f"Processor time of one thread, the fastest quarter of {asked.rounds} rounds.\n\n{table(head, rows)}"
    )
    figures = [asdict(one) for one in found]
    print(write("softmax_parts", "Parts of an output layer", machine, body, figures, results=asked.results))


if __name__ == "__main__":
    main()
