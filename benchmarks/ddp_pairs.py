"""What-ifs about the exchange of gradients, compared with two ranks that train here with and without the change.

A job of two processes (gloo, CPU) is profiled with ``skyline profile --ranks 2``, and every change is predicted from
that profile. Then the two processes build the model once for each change, wrapped as the change requires. The models
take some steps each in every round, in turns, the unchanged one twice for the null. Both ranks and the threads of gloo
share this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from ratio import Ratio
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.whatif.question import Choice, Question

RANKS = 2
STEPS = 5
"""Steps of a variant in a round. The fastest one counts, because other programs only add time."""
NULL_TOLERANCE = 0.1
"""Usual variation of processes that share cores with other programs. A round beyond it is not used."""
FEWEST = 4
"""Smallest number of steady rounds. With fewer, a job is left out."""
CHANGES: dict[str, dict[str, object]] = {
    "ddp_bucket=1": {"bucket_cap_mb": 1},
    "ddp_bucket=10": {"bucket_cap_mb": 10},
    "ddp_bucket=50": {"bucket_cap_mb": 50},
    "ddp_compression=fp16": {"hook": True},
    "gradient_as_bucket_view": {"gradient_as_bucket_view": True},
    "static_graph": {"static_graph": True},
}
"""The changes, each with its arguments for the wrapper."""
MODELS = {
    "linear": "nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]), lambda: torch.randn(64, 1024)",
    "convolutions": "nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Flatten(), "
    "nn.Linear(64 * 14 * 14, 512), nn.ReLU(), nn.Linear(512, 10)), lambda: torch.randn(16, 3, 32, 32)",
    "many small": "nn.Sequential(*[nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU()) "
    "for _ in range(60)]), lambda: torch.randn(64, 128)",
}
COMMON = """
import json, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

def made(given):
    torch.manual_seed(0)
    model, batch = {model}
    hook = given.pop("hook", False)
    model = DistributedDataParallel(model, **{{**{always}, **given}})
    if hook:
        model.register_comm_hook(None, fp16_compress_hook)
    return model, torch.optim.SGD(model.parameters(), lr=0.001), batch
"""
PROFILED = """
dist.init_process_group("gloo")
model, optimizer, batch = made({})
for step in range(100_000):
    loss = model(batch()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MEASURED = """
dist.init_process_group("gloo")
variants = [made(given) for given in json.loads(sys.argv[1])]
for round in range(int(sys.argv[2]) + 1):
    times = []
    for model, optimizer, batch in variants:
        steps = []
        for step in range(int(sys.argv[3])):
            dist.barrier()
            begin = time.perf_counter()
            loss = model(batch()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append((time.perf_counter() - begin) * 1e3)
        times.append(min(steps))
    if round and dist.get_rank() == 0:
        print(json.dumps(times), flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """One change of one job: the step with it over the step without."""

    model: str
    change: str
    predicted: float
    low: float
    high: float
    measured: Ratio
    null: Ratio

    @property
    def error(self) -> float:
        """The error of the prediction, relative to the measurement."""
        return self.predicted / self.measured.value - 1


def job(name: str, folder: Path, always: str, *, rounds: int) -> list[Pair]:
    """Predict from one profile, then measure all changes in turns."""
    common = COMMON.format(model=MODELS[name], always=always)
    script = folder / "train.py"
    script.write_text(common + PROFILED)
    profile = capture(
        CaptureRequest(script, ranks=RANKS, batch_points=0, settle_s=8.0), progress=lambda *_: None
    )
    analysis = analyse(profile)
    asked = {
        change: estimate(analysis, Question(choices=(Choice.parse(change),)))
        for change in CHANGES
        if change != "static_graph" or "find_unused" in always
    }
    predicted = {change: one for change, one in asked.items() if one.applicable}
    variants: list[dict[str, object]] = [{}, {}, *(CHANGES[change] for change in predicted)]
    times = measured(common + MEASURED, variants, rounds)
    nulls = [again / first for first, again, *_ in times]
    kept = [row for row, null in zip(times, nulls, strict=True) if abs(null - 1) <= NULL_TOLERANCE]
    if len(kept) < FEWEST:
        print(f"{name}: {len(kept)} of {rounds} rounds were steady, which is too few", file=sys.stderr)
        return []
    now = analysis.baseline.iteration_ms.value
    found: list[Pair] = []
    for place, (change, one) in enumerate(predicted.items(), start=2):
        found.append(
            Pair(
                name,
                change,
                one.iteration_ms.value / now,
                one.iteration_ms.low / now,
                one.iteration_ms.high / now,
                Ratio.of([row[place] / statistics.mean(row[:2]) for row in kept]),
                Ratio.of([row[1] / row[0] for row in kept]),
            )
        )
    return found


def measured(source: str, variants: list[dict[str, object]], rounds: int) -> list[list[float]]:
    """Milliseconds per step of each variant in each round, measured on rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", source, json.dumps(variants), str(rounds), str(STEPS)],
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(RANKS)
    ]
    try:
        said, _ = processes[0].communicate(timeout=3600)
        failed = [process.wait(60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(failed):
        raise SystemExit("the job of the benchmark failed: is torch built with gloo?")
    return [json.loads(line) for line in said.splitlines()]


def page(pairs: list[Pair]) -> str:
    """The figures as Markdown."""
    if not pairs:
        return "The machine was too busy: in too few rounds, two runs without a change took equal time."
    rows = [
        [one.model, one.change, f"{one.predicted:.3f} [{one.low:.3f}, {one.high:.3f}]", str(one.measured),
         f"{one.error:+.1%}", f"{1 / one.measured.value - 1:+.1%}", str(one.null)]
        for one in pairs
    ]  # fmt: skip
    errors = sorted(abs(one.error) for one in pairs)
    held = sum(one.low <= one.measured.high and one.measured.low <= one.high for one in pairs)
    nothing = sorted(abs(1 / one.measured.value - 1) for one in pairs)
    head = ["model", "change", "predicted", "measured", "error", '"no change"', "null"]
    return (
        "Time of a step with the change over a step without it, two ranks on this machine. Median absolute "
        f'error {statistics.median(errors):.1%}, worst {errors[-1]:.1%}. "No change": '
        f"{statistics.median(nothing):.1%} and {nothing[-1]:.1%}. The predicted and the measured range "
        f"overlap in {held} of {len(pairs)}."
        f"\n\n{table(head, rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    pairs: list[Pair] = []
    for name in asked.models:
        for always in ("{}", "{'find_unused_parameters': True}") if name == "many small" else ("{}",):
            with tempfile.TemporaryDirectory(prefix="skyline-ddp-") as folder:
                pairs += job(name, Path(folder), always, rounds=asked.rounds)
    print(
        write(
            "ddp_pairs",
            "The exchange of gradients",
            machine,
            page(pairs),
            [asdict(one) for one in pairs],
            results=asked.results,
        )
    )


if __name__ == "__main__":
    main()
