"""The time saved by evaluation without recorded gradients: the same forward passes in three modes, in turns.

Each model in evaluation mode computes its outputs with recorded gradients, under ``no_grad``, in inference mode, and
once more with gradients (the null). Times are processor time of one thread. A ratio is the median over rounds of the
time over the time with gradients. Operators are the outermost ones of a pass. ``saved`` is the time that inference
mode saves per operator.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from compile_cost import build, operators
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

MODELS = ("tiny", "mlp-2", "mlp-12", "elementwise", "conv-3", "conv-10", "gpt-1", "gpt-4")


def measure(name: str, rounds: int) -> dict[str, Any]:
    """The median ratios of one model, and its time with gradients in ms."""
    net, loss_of = build(name)
    net.eval()

    def took(mode: Any, passes: int) -> float:
        begin = time.process_time()
        with mode:
            for _ in range(passes):
                loss_of(net)
        return (time.process_time() - begin) / passes * 1e3

    took(torch.enable_grad(), 3)
    count = operators(lambda: loss_of(net))
    passes = max(1, round(30 / max(0.01, took(torch.enable_grad(), 3))))
    times: dict[str, list[float]] = {"grad": [], "no_grad": [], "inference": [], "again": []}
    for _ in range(rounds):
        times["grad"].append(took(torch.enable_grad(), passes))
        times["no_grad"].append(took(torch.no_grad(), passes))
        times["inference"].append(took(torch.inference_mode(), passes))
        times["again"].append(took(torch.enable_grad(), passes))
    ratios = {
        which: statistics.median(a / b for a, b in zip(times[which], times["grad"], strict=True))
        for which in ("no_grad", "inference", "again")
    }
    grad_ms = statistics.median(times["grad"])
    saved_us = grad_ms * (1 - ratios["inference"]) * 1e3 / count
    return {
        "model": name,
        "operators": count,
        "grad_ms": grad_ms,
        "saved_us_per_operator": saved_us,
        **ratios,
    }


def main() -> int:
    """Measure all models, and write the result files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    warn_when_busy(machine := Machine.here())
    torch.set_num_threads(1)
    found = [measure(name, options.rounds) for name in options.models]
    rows = [
        [
            one["model"],
            str(one["operators"]),
            f"{one['grad_ms']:.3f} ms",
            f"{one['no_grad']:.3f}",
            f"{one['inference']:.3f}",
            f"{one['again']:.3f}",
            f"{one['saved_us_per_operator']:.1f} µs",
        ]
        for one in found
    ]
    head = ["model", "operators", "with gradients", "no_grad", "inference mode", "A/A", "saved"]
    title, _, text = (__doc__ or "").partition("\n")
    body = f"{text.strip()}\n\n{table(head, rows)}"
    print(write("evaluation_mode", title, machine, body, {"models": found}, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
