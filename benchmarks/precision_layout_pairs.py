"""Gains of bfloat16, fused attention and the channels-last layout on this CPU: pairs of runs of small models.

The unchanged model, the changed model and the unchanged model again run blocks of steps in turns, in one process and
one thread. Times are processor time, so that other work on the machine has little effect. The null is the third over
the first. ``amp emulated`` runs in a process in which oneDNN must not use instructions for bfloat16.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import Machine, warn_when_busy
from ratio import Ratio
from result_file import RESULTS, table, write

WITHOUT_BFLOAT16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
_BLOCK_S = 0.2


@dataclass(frozen=True)
class Text:
    """A transformer: batch, positions, width, heads, blocks, dropout probability, and if its attention is causal."""

    batch: int
    positions: int
    width: int
    heads: int
    blocks: int
    dropout: float = 0.0
    causal: bool = True


@dataclass(frozen=True)
class Images:
    """An image network of one kind, with its batch size and image size."""

    kind: str
    batch: int
    channels: int
    size: int


MODELS: dict[str, Text | Images] = {
    "text 64": Text(16, 64, 128, 4, 3),
    "text 128": Text(4, 128, 192, 6, 3),
    "text 256": Text(4, 256, 128, 4, 3),
    "text 256, dropout": Text(4, 256, 128, 4, 3, dropout=0.1),
    "text 512": Text(2, 512, 128, 2, 2),
    "patches 197": Text(4, 197, 192, 3, 3, causal=False),
    "residual 32": Images("residual 32", 32, 3, 32),
    "residual 64": Images("residual 64", 16, 3, 32),
    "digits": Images("digits", 64, 1, 28),
    "plain stack": Images("plain", 32, 3, 32),
    "separable": Images("separable", 32, 3, 64),
    "perceptron": Images("perceptron", 64, 1, 28),
}
CHANGES = ("sdpa", "channels_last", "amp", "amp emulated")


def applies(model: str, change: str) -> bool:
    """True if a change can affect a model."""
    if change == "sdpa":
        return isinstance(MODELS[model], Text)
    if change == "channels_last":
        return isinstance(MODELS[model], Images) and model != "perceptron"
    return model in (
        "text 128",
        "text 256",
        "residual 32",
        "residual 64",
        "digits",
        "plain stack",
        "perceptron",
    )


def text_model(spec: Text, fused: bool) -> Any:
    """A small GPT, with attention written out or fused."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.output = (
                nn.Linear(spec.width, 3 * spec.width),
                nn.Linear(spec.width, spec.width),
            )
            self.register_buffer("past", torch.tril(torch.ones(spec.positions, spec.positions)))

        def forward(self, x: Any) -> Any:
            shape = (*x.shape[:2], spec.heads, spec.width // spec.heads)
            q, k, v = (part.view(shape).transpose(1, 2) for part in self.inputs(x).split(spec.width, dim=2))
            if fused:
                y = functional.scaled_dot_product_attention(
                    q, k, v, is_causal=spec.causal, dropout_p=spec.dropout
                )
            else:
                scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                if spec.causal:
                    scores = scores.masked_fill(self.past == 0, float("-inf"))
                y = functional.dropout(functional.softmax(scores, dim=-1), spec.dropout) @ v
            return self.output(y.transpose(1, 2).contiguous().view(x.shape))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.attention = (
                nn.LayerNorm(spec.width),
                nn.LayerNorm(spec.width),
                Attention(),
            )
            self.wide = nn.Sequential(
                nn.Linear(spec.width, 4 * spec.width), nn.GELU(), nn.Linear(4 * spec.width, spec.width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.wide(self.second(x))

    blocks = [Block() for _ in range(spec.blocks)]
    return nn.Sequential(nn.Embedding(256, spec.width), *blocks, nn.Linear(spec.width, 256))


def image_model(kind: str) -> Any:
    """A small image network of one of five kinds."""
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            parts = [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            parts += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            self.parts, self.last = nn.Sequential(*parts), nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.last(x + self.parts(x))

    def head(features: int) -> list[Any]:
        return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, 10)]

    if kind == "perceptron":
        sizes = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
        return nn.Sequential(nn.Flatten(), *sizes)
    if kind == "digits":
        layers = [
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        ]
        return nn.Sequential(*layers, nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
    if kind == "plain":
        layers = []
        for before, after, halved in (
            (3, 32, False),
            (32, 32, True),
            (32, 64, False),
            (64, 64, True),
            (64, 128, True),
        ):
            layers += [
                nn.Conv2d(before, after, 3, padding=1),
                nn.ReLU(),
                *([nn.MaxPool2d(2)] if halved else []),
            ]
        return nn.Sequential(*layers, *head(128))
    if kind == "separable":
        layers = [nn.Conv2d(3, 64, 3, 2, 1)]
        for _ in range(4):
            layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), nn.BatchNorm2d(64), nn.ReLU6()]
            layers += [nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU6()]
        return nn.Sequential(*layers, *head(64))
    width = int(kind.split()[1])
    layers = [
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        Residual(width),
        nn.Conv2d(width, 2 * width, 3, 2, 1),
    ]
    return nn.Sequential(*layers, Residual(2 * width), *head(2 * width))


def step_of(name: str, change: str) -> Callable[[], None]:
    """One training step of a model with a change, or unchanged if the change is empty."""
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    spec = MODELS[name]
    if isinstance(spec, Text):
        model = text_model(spec, fused=change == "sdpa")
        batch, target = (torch.randint(0, 256, (spec.batch, spec.positions)) for _ in range(2))
    else:
        model = image_model(spec.kind)
        batch = torch.randn(spec.batch, spec.channels, spec.size, spec.size)
        target = torch.randint(0, 10, (spec.batch,))
        if change == "channels_last":
            model = model.to(memory_format=torch.channels_last)
            batch = batch.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        narrow = torch.autocast("cpu", dtype=torch.bfloat16) if "amp" in change else contextlib.nullcontext()
        with narrow:
            output = model(batch)
            loss = functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def compare(name: str, change: str, rounds: int) -> tuple[list[float], list[float]]:
    """For each round, the changed step over the unchanged step, and the unchanged step over itself."""
    steps = [step_of(name, ""), step_of(name, change), step_of(name, "")]
    for step in steps:
        step()
        step()
    begin = time.process_time()
    steps[0]()
    count = max(1, int(_BLOCK_S / (time.process_time() - begin)))
    ratios: list[float] = []
    nulls: list[float] = []
    for turn in range(rounds):
        took = [0.0, 0.0, 0.0]
        for place in range(3):
            which = (place + turn) % 3
            samples: list[float] = []
            for _ in range(count):
                begin = time.process_time()
                steps[which]()
                samples.append(time.process_time() - begin)
            took[which] = statistics.median(samples)
        ratios.append(took[1] / took[0])
        nulls.append(took[2] / took[0])
    return ratios, nulls


def main() -> None:
    """Compare all pairs and write the page. ``--changes`` compares only some changes and prints the pairs as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--changes", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.changes:
        import torch

        torch.set_num_threads(1)
        for change in given.changes:
            for name in filter(lambda model: applies(model, change), MODELS):
                ratios, nulls = compare(name, change, given.rounds)
                print(
                    json.dumps({"model": name, "change": change, "ratios": ratios, "nulls": nulls}),
                    flush=True,
                )
        return
    machine = Machine.here()
    warn_when_busy(machine)
    figures: list[dict[str, Any]] = []
    for changes, extra in ((CHANGES[:-1], {}), (CHANGES[-1:], WITHOUT_BFLOAT16)):
        command = [sys.executable, __file__, "--rounds", str(given.rounds), "--changes", *changes]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **extra}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout or ():
                one = json.loads(line)
                figures.append(one)
                pair = f"{one['model']:20} {one['change']:14}"
                print(f"{pair} {Ratio.of(one['ratios'])}   null {Ratio.of(one['nulls'])}", flush=True)
    rows = [
        (one["change"], one["model"], str(Ratio.of(one["ratios"])), str(Ratio.of(one["nulls"])))
        for one in figures
    ]
    body = (__doc__ or "") + "\n" + table(("change", "model", "step, changed over as it is", "null"), rows)
    title = "Number formats, attention and layout on a CPU"
    write("precision_layout_pairs", title, machine, body, figures, results=given.results)


if __name__ == "__main__":
    main()
