"""The time of max pooling in compiled code on a CPU over its time in PyTorch's own code: the basis of its model.

    python benchmarks/compiled_pooling.py

Small networks with and without a pooling layer are compiled. The difference between the times of their generated
kernels is the time of pooling. Three chains precede the pooling layer: nothing, a ReLU whose comparison compiled code
stores for the backward pass, and a normalization with a ReLU, for which it stores none. PyTorch's own pooling is timed
in both layouts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
import torch._dynamo
import torch._inductor.config
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import nn
from torch.profiler import ProfilerActivity, profile

_ITERATIONS, _SETTLING = 9, 3
_SIZES = ((1, 16, 28, 100), (16, 32, 14, 100), (3, 64, 32, 32), (32, 64, 24, 64))
"""Channels in, channels out, height and width, batch."""
_WINDOWS = ((2, 2, 0), (3, 2, 1))
_CHAINS: dict[str, Callable[[int], list[nn.Module]]] = {
    "none": lambda channels: [],
    "ReLU": lambda channels: [nn.ReLU()],
    "norm, ReLU": lambda channels: [nn.BatchNorm2d(channels), nn.ReLU()],
}
_LAYOUTS = (torch.contiguous_format, torch.channels_last)
_POOLS = "aten::max_pool2d_with_indices"


@dataclass(frozen=True, slots=True)
class Pooling:
    """Time of one pooling layer in µs, forward and backward: PyTorch's own code by layout, and generated code."""

    chain: str
    numbers: int
    window: int
    threads: int
    eager_us: tuple[float, float]
    channels_last_us: tuple[float, float]
    compiled_us: tuple[float, float]

    def ratios(self, backward: int) -> tuple[float, float]:
        """Generated code over PyTorch's own code, in the layouts channels first and channels last."""
        mine = self.compiled_us[backward]
        return mine / self.eager_us[backward], mine / self.channels_last_us[backward]


def network(chain: str, size: tuple[int, int, int, int], window: tuple[int, int, int] | None) -> nn.Module:
    """A convolution, the chain, the pooling layer if there is a window, and a convolution."""
    into, channels, _, _ = size
    layers: list[nn.Module] = [nn.Conv2d(into, channels, 3, padding=1), *_CHAINS[chain](channels)]
    if window is not None:
        layers.append(nn.MaxPool2d(window[0], window[1], window[2]))
    return nn.Sequential(*layers, nn.Conv2d(channels, 8, 3, padding=1))


def events_us(run: Callable[[], object], counts: Callable[[str], bool]) -> float:
    """Median time per iteration of the events that ``counts`` selects."""
    took: list[float] = []
    for number in range(_ITERATIONS):
        if number < _SETTLING:
            run()
            continue
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            run()
        took.append(sum(one.self_cpu_time_total for one in recorded.key_averages() if counts(one.key)))
    return median(took)


def generated_us(model: nn.Module, given: torch.Tensor) -> tuple[float, float]:
    """The time of all generated kernels of a forward and of a backward pass, in µs."""
    torch._dynamo.reset()
    compiled = torch.compile(model)

    def both() -> None:
        compiled(given).square().mean().backward()

    def is_generated(name: str) -> bool:
        return "cpp_fused" in name

    whole = events_us(both, is_generated)
    forward = events_us(lambda: compiled(given), is_generated)
    return forward, whole - forward


def own_us(model: nn.Module, given: torch.Tensor) -> tuple[float, float]:
    """The time of PyTorch's own pooling, in µs."""

    def both() -> None:
        model(given).square().mean().backward()

    return events_us(both, lambda name: name == _POOLS), events_us(
        both, lambda name: name == f"{_POOLS}_backward"
    )


def measured(threads: int) -> Iterator[Pooling]:
    """The rows of every chain, size and window on ``threads`` threads."""
    torch.set_num_threads(threads)
    for chain in _CHAINS:
        for size in _SIZES:
            into, channels, side, batch = size
            given = torch.randn(batch, into, side, side)
            without = generated_us(network(chain, size, None), given)
            for window in _WINDOWS:
                own = [
                    own_us(
                        network(chain, size, window).to(memory_format=layout), given.to(memory_format=layout)
                    )
                    for layout in _LAYOUTS
                ]
                pooled = generated_us(network(chain, size, window), given)
                difference = (pooled[0] - without[0], pooled[1] - without[1])
                yield Pooling(
                    chain, batch * channels * side * side, window[0], threads, own[0], own[1], difference
                )


def page(rows: list[Pooling]) -> str:
    """The rows, and the ratios of each chain."""
    head = [
        "chain",
        "numbers",
        "window",
        "threads",
        "pass",
        "own",
        "own, channels last",
        "compiled",
        "ratio",
        "channels last",
    ]
    body = [
        [
            row.chain,
            f"{row.numbers:,}",
            str(row.window),
            str(row.threads),
            name,
            f"{row.eager_us[place] / 1e3:.2f} ms",
            f"{row.channels_last_us[place] / 1e3:.2f} ms",
            f"{row.compiled_us[place] / 1e3:.2f} ms",
            *(f"{ratio:.2f}" for ratio in row.ratios(place)),
        ]
        for row in rows
        for place, name in enumerate(("forward", "backward"))
    ]
    sums: list[list[str]] = []
    for chain in _CHAINS:
        for place, name in enumerate(("forward", "backward")):
            line = [chain, name]
            for layout in range(2):
                ratios = sorted(row.ratios(place)[layout] for row in rows if row.chain == chain)
                line.append(f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
            sums.append(line)
    return f"{table(['chain', 'pass', 'ratio', 'ratio, channels last'], sums)}\n\n{table(head, body)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    torch.manual_seed(0)
    torch._inductor.config.cpp.enable_kernel_profile = True
    rows = [row for threads in dict.fromkeys(options.threads) for row in measured(threads)]
    capability = torch.backends.cpu.get_cpu_capability()
    figures = {"capability": capability, "rows": [asdict(row) for row in rows]}
    title = f"Max pooling in compiled code ({capability})"
    print(write("compiled_pooling", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
