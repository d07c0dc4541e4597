"""DistributedDataParallel over links of a known rate, compared with predictions of ``data_parallel=2@RATE``.

A script of one process is profiled, and its step with two workers is predicted for each rate. Then two gloo ranks train
in two new network namespaces, joined by a virtual link whose rate ``tc`` sets, with one thread each. In every round the
model without an exchange takes two turns (the null), then the model with it takes a turn at each rate. Needs root (or
``unshare --map-root-user --net``), iproute2 and util-linux. Without them nothing is measured, and the reason is given.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from network_namespaces import LinkedNamespaces, why_not
from ratio import Ratio
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.whatif.question import Choice, Question

RATES = ("0.1", "0.25", "0.5", "1", "unlimited")
STEPS = 3
"""Timed steps of a turn, after one that is not timed. Their median counts."""
NULL_TOLERANCE = 0.1
"""A round is not used if its two turns without an exchange differ by more, because other programs use the cores too."""
FEWEST = 3
"""Smallest number of steady rounds. With fewer, a model is left out."""
_PORT = 29511
_PROBE_MB = 8
MODELS = {
    "mostly exchange": "nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]), torch.randn(64, 1024)",
    "balanced": "nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(8)]), "
    "torch.randn(1024, 512)",
    "mostly computation": "nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), "
    "nn.Conv2d(64, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), "
    "nn.Linear(256, 10)), torch.randn(16, 3, 48, 48)",
}
_COMMON = """
import json, os, socket, statistics, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
torch.manual_seed(0)
model, batch = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
"""
_PROFILED = """
for step in range(100_000):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_RANK = """
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
exchanging = DistributedDataParallel(model)

def step(model):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def turn(model):
    dist.barrier()
    step(model)
    times = []
    for _ in range({steps}):
        dist.barrier()
        begin = time.perf_counter()
        step(model)
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)

def probe():
    size = {probe_mb} * 1_000_000
    if rank == 0:
        with socket.create_server((os.environ["MASTER_ADDR"], {port} + 1)) as server:
            dist.barrier()
            there, _ = server.accept()
            with there:
                begin, left = time.perf_counter(), size
                while left:
                    left -= len(there.recv(min(left, 1 << 20)))
                took = time.perf_counter() - begin
        return size * 8 / took / 1e9
    dist.barrier()
    with socket.create_connection((os.environ["MASTER_ADDR"], {port} + 1)) as there:
        there.sendall(bytes(size))
        there.shutdown(socket.SHUT_WR)
        there.recv(1)
    return 0.0

bytes_exchanged = sum(one.numel() * one.element_size() for one in model.parameters())
print(json.dumps(bytes_exchanged), flush=True)
for line in sys.stdin:
    kind = line.strip()
    print(json.dumps(probe() if kind == "probe" else turn(exchanging if kind == "exchange" else model)), flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One model at one rate: the step of two ranks over the step of one process without an exchange."""

    model: str
    rate: str
    link_gbit_s: float
    """The rate measured over the shaped link."""
    predicted: float
    low: float
    high: float
    added: float
    """The ratio if all bytes are sent after the step at the rate of the link."""
    measured: Ratio
    least: float
    most: float
    null: Ratio
    discarded: int

    @property
    def error(self) -> float:
        """The error of the prediction, relative to the measurement."""
        return self.predicted / self.measured.value - 1


class Ranks:
    """Two processes that take turns on request."""

    def __init__(self, linked: LinkedNamespaces, source: str) -> None:
        self._linked = linked
        self._processes = [
            subprocess.Popen(
                linked.command(rank, sys.executable, "-c", source),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "MASTER_ADDR": linked.address(0),
                    "MASTER_PORT": str(_PORT),
                    "GLOO_SOCKET_IFNAME": linked.interface(rank),
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "OMP_NUM_THREADS": "1",
                },
            )
            for rank in range(2)
        ]
        self.bytes_exchanged = self._answers()[0]

    def turn(self, kind: str) -> float:
        """The step time of the slower rank in ms. For ``probe``, the rate of the link in Gbit/s."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{kind}\n")
            process.stdin.flush()
        return max(self._answers())

    def _answers(self) -> list[float]:
        found: list[float] = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit("a rank of the benchmark failed: is torch built with gloo?")
            found.append(float(json.loads(line)))
        return found

    def close(self) -> None:
        """End both processes."""
        for process in self._processes:
            process.kill()
            process.wait()


def predictions(script: Path, rates: Sequence[float]) -> list[tuple[float, float, float]]:
    """Milliseconds that two workers add to a step, with their range, for each rate in Gbit/s."""
    analysis = analyse(
        capture(CaptureRequest(script, batch_points=0, settle_s=8.0, trials=False), progress=lambda *_: None)
    )
    now = analysis.baseline.iteration_ms
    found: list[tuple[float, float, float]] = []
    for rate in rates:
        asked = Question(choices=(Choice.parse(f"data_parallel=2@{rate:g}"),))
        step = estimate(analysis, asked).iteration_ms
        # The spread of the step itself is in both times, and cancels in the difference.
        found.append((step.value - now.value, step.low - now.low, step.high - now.high))
    return found


def rows_of(
    name: str, rates: Sequence[str], rounds: int, linked: LinkedNamespaces, tolerance: float
) -> list[Row]:
    """Predict from one profile, then measure in turns."""
    common = _COMMON.replace("{model}", MODELS[name])
    source = _RANK.replace("{steps}", str(STEPS)).replace("{probe_mb}", str(_PROBE_MB))
    ranks = Ranks(linked, common + source.replace("{port}", str(_PORT)))
    try:
        links: list[float] = []
        for rate in rates:
            linked.shape(limit_of(rate))
            links.append(ranks.turn("probe"))
        times: list[list[float]] = []
        for _ in range(rounds):
            linked.shape(None)
            took = [ranks.turn("alone"), ranks.turn("alone")]
            for rate in rates:
                linked.shape(limit_of(rate))
                took.append(ranks.turn("exchange"))
            times.append(took)
    finally:
        ranks.close()
    knobs = [limit_of(rate) or link for rate, link in zip(rates, links, strict=True)]
    with tempfile.TemporaryDirectory(prefix="skyline-links-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(common + _PROFILED)
        predicted = predictions(script, knobs)
    return scored(name, rates, links, knobs, predicted, times, ranks.bytes_exchanged, tolerance)


def limit_of(rate: str) -> float | None:
    """The limit in Gbit/s. None for an unlimited link."""
    return None if rate == "unlimited" else float(rate)


def scored(
    name: str,
    rates: Sequence[str],
    links: Sequence[float],
    knobs: Sequence[float],
    predicted: Sequence[tuple[float, float, float]],
    times: Sequence[Sequence[float]],
    bytes_exchanged: float,
    tolerance: float = NULL_TOLERANCE,
) -> list[Row]:
    """A row for each rate, from turns in ms: alone, alone again, and at each rate.

    The predicted added time is added to the measured step of these processes without an exchange.
    """
    kept = [turns for turns in times if abs(turns[1] / turns[0] - 1) <= tolerance]
    if len(kept) < FEWEST:
        print(f"{name}: {len(kept)} of {len(times)} rounds were steady, which is too few", file=sys.stderr)
        return []
    alone_ms = statistics.median(statistics.mean(turns[:2]) for turns in kept)
    found: list[Row] = []
    for place, rate in enumerate(rates):
        value, low, high = (1 + added / alone_ms for added in predicted[place])
        ratios = [turns[2 + place] / statistics.mean(turns[:2]) for turns in kept]
        found.append(
            Row(
                name,
                rate,
                links[place],
                value,
                low,
                high,
                1 + bytes_exchanged * 8 / (knobs[place] * 1e6) / alone_ms,
                Ratio.of(ratios),
                min(ratios),
                max(ratios),
                Ratio.of([turns[1] / turns[0] for turns in kept]),
                len(times) - len(kept),
            )
        )
    return found


def page(rows: Sequence[Row], rounds: int, load: float, tolerance: float = NULL_TOLERANCE) -> str:
    """The figures as Markdown."""
    if not rows:
        return "The machine was too busy: in too few rounds, two turns without an exchange took equal time."
    errors = [abs(one.error) for one in rows]
    added = [abs(one.added / one.measured.value - 1) for one in rows]
    nothing = [abs(1 / one.measured.value - 1) for one in rows]
    held = sum(one.low <= one.measured.high and one.measured.low <= one.high for one in rows)
    body = [
        (one.model, one.rate, f"{one.link_gbit_s:.2f}", f"{one.predicted:.2f} [{one.low:.2f}, {one.high:.2f}]",
         f"{one.measured.value:.2f} ({one.least:.2f} to {one.most:.2f})", f"{one.error:+.1%}",
         f"{one.added / one.measured.value - 1:+.1%}", str(one.null), str(one.discarded))
        for one in rows
    ]  # fmt: skip
    head = (
        "model", "Gbit/s", "link", "predicted", "measured", "error", "bytes after the step", "null", "discarded"
    )  # fmt: skip
    busy = "" if load < 0.5 else " Other programs ran at the same time."
    return (
        "Step of two gloo ranks with DistributedDataParallel over the step of the same processes without an "
        f"exchange: median and range of up to {rounds} rounds of {STEPS} steps each. The prediction is the "
        "step without an exchange plus the time that `data_parallel=2@RATE` adds to the profile of one "
        "process. An unlimited link has the rate that was measured on it (*link*). There are two baselines. "
        "One sends all bytes after the step at the rate of the link. The other predicts no change.\n\nMedian "
        f"absolute error {statistics.median(errors):.1%}, worst {max(errors):.1%}. Bytes after the step: "
        f"{statistics.median(added):.1%} and {max(added):.1%}. No change: {statistics.median(nothing):.1%} "
        f"and {max(nothing):.1%}. The predicted and the measured range overlap in {held} of {len(rows)}. "
        f"Rounds whose null is off by more than {tolerance:.0%} are discarded.{busy}\n\n{table(head, body)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rates", nargs="*", default=list(RATES), metavar="GBIT_S")
    parser.add_argument(
        "--tolerance", type=float, default=NULL_TOLERANCE, help="how far the null of a kept round may be off"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if reason := why_not():
        print(f"skipped: {reason}")
        return 0
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Row] = []
    for name in asked.models:
        with LinkedNamespaces() as linked:
            rows += rows_of(name, asked.rates, asked.rounds, linked, asked.tolerance)
    figures = [{**asdict(one), "error": one.error} for one in rows]
    body = page(rows, asked.rounds, machine.load_average, asked.tolerance)
    print(
        write(
            "shaped_links",
            "Two ranks over shaped links",
            machine,
            body,
            figures,
            results=asked.results,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
