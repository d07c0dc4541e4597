"""The one-time cost of torch.compile, and the time of a compiled step compared with an eager one, on several models.

Each model is built and compiled in its own process with an empty compiler cache. Then the eager model, the eager model
again (the null) and the compiled model take steps in turns. All times are processor time of one thread and of the
compilers that it calls, so that other work on the machine does not change them. In wall time, compiling is faster with
several cores. The cost of compiling is the time of the first two steps minus the time of two later steps. Operators are
counted as in a profile: the outermost ones that a thread runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

MODELS = (
    "mlp-2",
    "mlp-12",
    "elementwise",
    "conv-3",
    "conv-10",
    "gpt-1",
    "gpt-4",
    "dropout",
    "tiny",
    "tiny-broken",
)
"""A kind, followed by its depth after the dash. ``tiny-broken`` reads a number in its forward pass."""


def build(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """The model, and the function that computes its loss."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    kind, _, detail = name.partition("-")
    depth = int(detail) if detail.isdigit() else 1
    if kind == "mlp":
        layers = [each for _ in range(depth) for each in (nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512))]
        x, y = torch.randn(128, 512), torch.randint(0, 10, (128,))
        return nn.Sequential(*layers, nn.Linear(512, 10)), lambda net: nn.functional.cross_entropy(net(x), y)
    if kind == "elementwise":

        class Elementwise(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.enter, self.leave = nn.Linear(64, 2048), nn.Linear(2048, 1)

            def forward(self, x: Any) -> Any:
                x = self.enter(x)
                for _ in range(8):
                    x = torch.tanh(x) * torch.sigmoid(x) + 0.1 * x
                return self.leave(x)

        x = torch.randn(512, 64)
        return Elementwise(), lambda net: (net(x) ** 2).mean()
    if kind == "conv":
        channels = [3, *[32] * depth]
        layers = [
            each
            for a, b in itertools.pairwise(channels)
            for each in (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        ]
        x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        return net, lambda net: nn.functional.cross_entropy(net(x), y)
    if kind == "gpt":
        return _gpt(depth)
    if kind == "dropout":
        x = torch.randn(512, 64)
        # A million random numbers, and hardly any other work.
        return nn.Sequential(nn.Linear(64, 2048), nn.Dropout(0.1)), lambda net: net(x).mean()

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.first(x))
            if detail == "broken" and x.sum().item() < -1:
                x = -x
            return self.second(x)

    x = torch.randn(4, 8)
    return Tiny(), lambda net: net(x).sum()


def _gpt(depth: int) -> tuple[Any, Callable[[Any], Any]]:
    import torch
    from torch import nn

    width, length, vocabulary = 128, 64, 512

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.drop = nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.one(x)).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) * (c // 4) ** -0.5
            mask = torch.tril(torch.ones(t, t)) == 0
            scores = torch.softmax(scores.masked_fill(mask, float("-inf")), -1)
            x = x + self.drop(self.out((scores @ v).transpose(1, 2).reshape(b, t, c)))
            return x + self.drop(self.mlp(self.two(x)))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(vocabulary, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.head = nn.Linear(width, vocabulary)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.blocks(self.embed(tokens)))

    tokens = torch.randint(0, vocabulary, (8, length))
    return Gpt(), lambda net: nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())


def operators(step: Callable[[], Any]) -> int:
    """The number of outermost operators that a step runs."""
    import torch

    with torch.profiler.profile() as profiler:
        step()
    return sum(
        1
        for event in profiler.events()
        if (event.cpu_parent is None or event.cpu_parent.name.startswith("autograd::engine"))
        and not event.name.startswith(("autograd::engine", "ProfilerStep"))
    )


def processor_s() -> float:
    """Processor time of this process and of the compilers that it called, in s."""
    called = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + called.ru_utime + called.ru_stime


def measure(name: str, rounds: int) -> dict[str, Any]:
    """The cost of compiling one model in this process, and the times of its steps in ms."""
    import torch

    torch.set_num_threads(1)
    eager, loss_of = build(name)

    def step(net: Any) -> float:
        begin = processor_s()
        net.zero_grad()
        loss_of(net).backward()
        return processor_s() - begin

    for _ in range(5):
        step(eager)
    count = operators(lambda: step(eager))
    torch._dynamo.reset()
    compiled = torch.compile(eager)
    first = step(compiled) + step(compiled)
    later = statistics.median(step(compiled) for _ in range(5))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    inner = max(1, round(0.05 / max(1e-4, later)))
    times: dict[str, list[float]] = {"eager": [], "again": [], "compiled": []}
    for _ in range(rounds):
        for which, net in (("eager", eager), ("compiled", compiled), ("again", eager)):
            times[which].append(statistics.median(step(net) for _ in range(inner)) * 1e3)
    ratio = statistics.median(c / e for c, e in zip(times["compiled"], times["eager"], strict=True))
    null = statistics.median(a / e for a, e in zip(times["again"], times["eager"], strict=True))
    return {
        "model": name,
        "graphs": graphs,
        "operators": count,
        "compile_s": first - 2 * later,
        "eager_ms": statistics.median(times["eager"]),
        "compiled_ms": statistics.median(times["compiled"]),
        "ratio": ratio,
        "null": null,
    }


def main() -> int:
    """Measure every model in its own process, and write the result files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--in-process", action="store_true", help="measure the one model named, print JSON")
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(measure(options.models[0], options.rounds)))
        return 0
    warn_when_busy(machine := Machine.here())
    found: list[dict[str, Any]] = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as cache:
            arguments = [sys.executable, __file__, name, "--in-process", "--rounds", str(options.rounds)]
            run = subprocess.run(
                arguments,
                env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        if run.returncode:
            print(f"{name}: {run.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            continue
        found.append(json.loads(run.stdout.splitlines()[-1]))
        print(found[-1], file=sys.stderr)
    rows = [
        [
            one["model"],
            str(one["graphs"]),
            str(one["operators"]),
            f"{one['compile_s']:.1f} s",
            f"{one['eager_ms']:.2f} ms",
            f"{one['compiled_ms']:.2f} ms",
            f"{one['ratio']:.3f}",
            f"{one['null']:.3f}",
        ]
        for one in found
    ]
    head = ["model", "graphs", "operators", "compiling", "eager step", "compiled step", "ratio", "A/A"]
    title, _, text = __doc__.partition("\n")
    body = f"{text.strip()}\n\n{table(head, rows)}"
    write("compile_cost", title, machine, body, {"models": found}, results=options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
