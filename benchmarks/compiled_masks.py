"""The cost of comparisons that compiled code stores for the backward pass: the data behind their model.

    python benchmarks/compiled_masks.py [--rounds 5]

Rectifiers of several kinds and sizes run eager and compiled in turns, forward and backward. The page gives the extra
time of the compiled form per number. Activations without a stored comparison (tanh, SiLU) are the null. Then short
chains of layers are compiled, and the page lists the chains that store comparisons.
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
import torch._dynamo
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from torch.nn import functional

from skyline.whatif.catalogue.host.compile import MASK_NS, MASK_PART
from skyline.whatif.cost.thread_scaling import gained

_ITERATIONS, _SETTLING = 15, 3
_SIZES = (2**18, 2**21)
_KEPT = ("relu", "leaky_relu", "relu6")
_NOT_KEPT = ("tanh", "silu")
_CHAINS: dict[str, Callable[[], nn.Module]] = {
    "convolution, ReLU, convolution": lambda: nn.Sequential(_conv(), nn.ReLU(), _conv()),
    "convolution, ReLU, pooling, convolution": lambda: nn.Sequential(
        _conv(), nn.ReLU(), nn.MaxPool2d(2), _conv()
    ),
    "convolution, norm, ReLU, pooling, convolution": lambda: nn.Sequential(
        _conv(), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), _conv()
    ),
    "convolution, pooling, ReLU, convolution": lambda: nn.Sequential(
        _conv(), nn.MaxPool2d(2), nn.ReLU(), _conv()
    ),
    "convolution, leaky ReLU, convolution": lambda: nn.Sequential(_conv(), nn.LeakyReLU(0.2), _conv()),
    "convolution, norm, leaky ReLU, convolution": lambda: nn.Sequential(
        _conv(), nn.BatchNorm2d(8), nn.LeakyReLU(0.2), _conv()
    ),
    "convolution, dropout, ReLU, convolution": lambda: nn.Sequential(
        _conv(), nn.Dropout(), nn.ReLU(), _conv()
    ),
    "convolution, ReLU, dropout, convolution": lambda: nn.Sequential(
        _conv(), nn.ReLU(), nn.Dropout(), _conv()
    ),
}


def _conv() -> nn.Module:
    return nn.Conv2d(8, 8, 3, padding=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One activation: the time of its forward and backward pass together, in µs."""

    activation: str
    threads: int
    numbers: int
    eager_us: float
    compiled_us: float

    @property
    def more_ns(self) -> float:
        """The extra time of the compiled form per number and core, in ns."""
        return 1e3 * (self.compiled_us - self.eager_us) / self.numbers / gained(MASK_PART, self.threads)


def measured(activation: str, threads: int, numbers: int, rounds: int) -> Row:
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    given = torch.randn(numbers, requires_grad=True)
    gradient = torch.ones(numbers)
    eager = getattr(functional, activation) if hasattr(functional, activation) else getattr(torch, activation)
    forms = {"eager": eager, "compiled": torch.compile(eager)}
    took: dict[str, list[float]] = {form: [] for form in forms}
    for turn in range(rounds):
        for form in forms if turn % 2 else reversed(forms):
            for number in range(_ITERATIONS):
                given.grad = None
                began = time.perf_counter()
                forms[form](given).backward(gradient)
                if number >= _SETTLING:
                    took[form].append(1e6 * (time.perf_counter() - began))
    return Row(activation, threads, numbers, median(took["eager"]), median(took["compiled"]))


def kept_in(make: Callable[[], nn.Module]) -> int:
    """The number of comparisons that the forward pass of a chain hands to its backward pass."""
    found: list[object] = []

    def look(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        (results,) = (node.args[0] for node in module.graph.nodes if node.op == "output")
        values = (node.meta.get("val") for node in results if isinstance(node, torch.fx.Node))
        found.extend(one for one in values if isinstance(one, torch.Tensor) and one.dtype == torch.bool)
        return make_boxed_func(module.forward)

    backend = aot_autograd(
        fw_compiler=look,
        bw_compiler=lambda module, _: make_boxed_func(module.forward),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    torch._dynamo.reset()
    torch.compile(make(), backend=backend)(torch.randn(2, 8, 16, 16)).sum().backward()
    return len(found)


def page(rows: list[Row], kept: dict[str, int]) -> str:
    head = ["activation", "threads", "numbers", "eager", "compiled", "more for each number, of one core"]
    body = [
        [
            row.activation,
            str(row.threads),
            f"{row.numbers:,}",
            f"{row.eager_us / 1e3:.2f} ms",
            f"{row.compiled_us / 1e3:.2f} ms",
            f"{row.more_ns:+.1f} ns",
        ]
        for row in rows
    ]
    masked = sorted(row.more_ns for row in rows if row.activation in _KEPT)
    others = sorted(row.more_ns for row in rows if row.activation in _NOT_KEPT)
    chains = table(["chain", "stored comparisons"], [[name, str(count)] for name, count in kept.items()])
    return (
        f"{table(head, body)}\n\nWith a stored comparison: median {median(masked):.1f} ns, {masked[0]:.1f} "
        f"to {masked[-1]:.1f}. The model has {MASK_NS.value:.0f} ({MASK_NS.low:.0f} to {MASK_NS.high:.0f}) "
        "ns on CPUs with only AVX2, and 0 on CPUs with AVX-512. Without a stored comparison: "
        f"{others[0]:.1f} to {others[-1]:.1f} ns.\n\n{chains}"
    )


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
    all_threads = torch.get_num_threads()
    rows = [
        measured(activation, threads, numbers, options.rounds)
        for activation in (*_KEPT, *_NOT_KEPT)
        for threads in dict.fromkeys((1, all_threads))
        for numbers in _SIZES
    ]
    kept = {name: kept_in(make) for name, make in _CHAINS.items()}
    figures = {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "activations": [asdict(row) | {"more_ns": row.more_ns} for row in rows],
        "chains": kept,
    }
    title = f"Comparisons stored for the backward pass in compiled code ({figures['capability']})"
    print(write("compiled_masks", title, machine, page(rows, kept), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
