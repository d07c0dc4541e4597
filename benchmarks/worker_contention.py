"""Measures how computing threads and loader workers share cores, and the gain of threads: the basis of their models.

    python benchmarks/worker_contention.py [--rounds 5]

Four parts are measured on this machine, each with one thread per core and with a single thread: repeated operators;
training steps of small networks; a loop of one kind of operator together with a ``DataLoader`` whose workers are busy
for a given time per batch; and the start of workers at the beginning of an epoch. Variants take turns. On Linux the
process requests precedence over other sessions (``/proc/self/autogroup``) if allowed, so that others use little of its
cores. The table has the share of a core that they used.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from skyline.graph.threads import ThreadUse
from skyline.predict.fetching_costs import FetchingCosts
from skyline.whatif.cost.contention import Computing, contended_us

CORES = os.cpu_count() or 1
LOADS_MS = (3.0, 10.0, 30.0)
USES = {
    "large products": ThreadUse(1.0, 0.0, 0.0),
    "short split operators": ThreadUse(1.0, 0.0, 0.0),
    "operators below the grain": ThreadUse(0.0, 0.0, 1.0),
    "products and small operators": ThreadUse(0.4, 0.6, 0.0),
}
"""The share of each loop that is split over threads, and the share of other work close to split operators."""
_NOTE = """\
Mean absolute error {:.0f} %, median {:.0f} %; mean {:.0f} % if other programs used less than a quarter of \
a core. `alone` is the loop without loading. `others` is the share of a core that other programs used. If it \
is large, a thread that wakes up may wait for a thread of another program.\
"""


class Busy(Dataset[torch.Tensor]):
    """Batches that keep their maker's core busy for a given time."""

    def __init__(self, load_ms: float) -> None:
        self.load_ms = load_ms

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        values, end = torch.ones(20_000), time.thread_time() + self.load_ms / 1e3
        while time.thread_time() < end:
            values = (values * 0.5).add_(0.5)
        return values[:1000].clone()


def loops() -> dict[str, Callable[[], None]]:
    """Iterations of one kind of operator each."""
    large, middle = torch.rand(900, 900), torch.rand(500, 500)
    split, small = torch.ones(300_000), torch.ones(2_000)

    def repeated(count: int, work: Callable[[], object]) -> Callable[[], None]:
        return lambda: [work() for _ in range(count)] and None

    def mixed() -> None:
        for _ in range(5):
            torch.mm(middle, middle)
            for _ in range(900):
                small.mul_(1.0)

    works = (
        repeated(3, lambda: torch.mm(large, large)),
        repeated(220, lambda: split.mul_(1.0)),
        repeated(9000, lambda: small.mul_(1.0)),
        mixed,
    )
    return dict(zip(USES, works, strict=True))


def operators() -> Iterator[tuple[str, Callable[[], object]]]:
    """Operators of several sizes."""
    for size in (64, 256, 1024):
        square = torch.rand(size, size)
        yield f"product {size}", lambda square=square: torch.mm(square, square)
    images, filters = torch.rand(32, 16, 32, 32), torch.rand(32, 16, 3, 3)
    yield "convolution", lambda: functional.conv2d(images, filters, padding=1)
    for count in (40_000, 400_000, 6_400_000):
        values = torch.rand(count)
        yield f"relu {count}", lambda values=values: torch.relu(values)
        yield f"gelu {count}", lambda values=values: functional.gelu(values)
        yield f"sum {count}", lambda values=values: values.sum()
    queries = torch.rand(16, 4, 64, 32)
    yield (
        "attention 64",
        lambda: functional.scaled_dot_product_attention(queries, queries, queries),
    )


def networks() -> Iterator[tuple[str, Callable[[], object]]]:
    """Forward and backward passes of small networks."""
    layers: dict[str, tuple[nn.Module, torch.Tensor]] = {
        "perceptron": (
            nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(256, 256), nn.ReLU())]),
            torch.rand(512, 256),
        ),
        "perceptron with norms": (
            nn.Sequential(
                *[part for _ in range(6) for part in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())]
            ),
            torch.rand(1024, 256),
        ),
        "convolutional": (
            nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1),
                *[
                    part
                    for _ in range(4)
                    for part in (nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
                ],
            ),
            torch.rand(32, 3, 32, 32),
        ),
        "transformer layer": (
            nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True),
            torch.rand(16, 64, 128),
        ),
    }
    for name, (network, batch) in layers.items():
        for samples in (len(batch) // 8, len(batch), 4 * len(batch)):
            some = batch.repeat(4, *([1] * (batch.dim() - 1)))[:samples]
            yield (
                f"{name}, {samples}",
                lambda network=network, some=some: network(some).square().mean().backward(),
            )


def on_threads(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median time in µs on one thread and on one thread per core, in turns."""
    taken: dict[int, list[float]] = {1: [], CORES: []}
    work()
    for turn in range(rounds):
        for threads in (1, CORES) if turn % 2 else (CORES, 1):
            torch.set_num_threads(threads)
            work()
            begin, count = time.perf_counter(), 0
            while time.perf_counter() - begin < 0.02 or not count:
                work()
                count += 1
            taken[threads].append((time.perf_counter() - begin) / count * 1e6)
    return median(taken[1]), median(taken[CORES])


@dataclass(frozen=True, slots=True)
class Turn:
    """A few iterations of a loop: the time of each in ms, and the share of a core that other programs used."""

    iteration_ms: float
    others: float


def shared(name: str, work: Callable[[], None], rounds: int) -> dict[tuple[float, int, int], Turn]:
    """The turns by load, threads and workers."""
    torch.set_num_threads(1)
    variants = [
        (load, threads, workers) for load in LOADS_MS for threads in (1, CORES) for workers in (0, 1, 2)
    ]
    loaders = {
        (load, workers): iter(DataLoader(Busy(load), batch_size=None, num_workers=workers))
        for load, _, workers in variants
    }
    for batches in loaders.values():
        next(batches)
    turns: dict[tuple[float, int, int], list[Turn]] = {one: [] for one in variants}
    for number in range(rounds):
        for one in random.Random(number).sample(variants, len(variants)):
            load, threads, workers = one
            torch.set_num_threads(threads)
            turns[one].append(_turn(loaders[load, workers], work, workers))
    print(f"{name}: done", file=sys.stderr)
    return {
        one: Turn(median(turn.iteration_ms for turn in found), median(turn.others for turn in found))
        for one, found in turns.items()
    }


def _turn(batches: Iterator[torch.Tensor], work: Callable[[], None], workers: int, count: int = 6) -> Turn:
    own = [os.getpid(), *(worker.pid for worker in getattr(batches, "_workers", ()))]
    for _ in range(2 * workers + 1):
        next(batches)
        work()
    busy, mine, begin = _busy_s(), _used_s(own), time.perf_counter()
    for _ in range(count):
        next(batches)
        work()
    took = time.perf_counter() - begin
    return Turn(1e3 * took / count, max(0.0, (_busy_s() - busy - _used_s(own) + mine) / took))


def _busy_s() -> float:
    """The busy time of all cores, in s."""
    try:
        numbers = [
            int(one) for one in Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:]
        ]
    except OSError:
        return 0.0
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def _used_s(processes: list[int]) -> float:
    total = 0
    for process in processes:
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def starts(rounds: int) -> dict[int, float]:
    """The time in ms until an epoch's first batch, by workers. The batch itself needs almost no time."""
    found: dict[int, float] = {}
    for workers in (1, 2, 4):
        loader = DataLoader(Busy(0.0), batch_size=None, num_workers=workers)
        taken: list[float] = []
        for _ in range(rounds):
            begin = time.perf_counter()
            batches = iter(loader)
            next(batches)
            taken.append(1e3 * (time.perf_counter() - begin))
            del batches
        found[workers] = median(taken)
    return found


def predicted_ms(name: str, alone_ms: float, load_ms: float, threads: int, workers: int) -> float:
    """The model's prediction for an iteration that takes ``alone_ms`` without any loading."""
    costs = FetchingCosts()
    taking_us = costs.taken_us(4000.0) if workers else 0.0
    computing = Computing(1e3 * alone_ms + taking_us, USES[name], threads)
    return contended_us(1e3 * load_ms, computing, workers=workers, cores=CORES) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    with suppress(OSError):
        if os.getpid() != os.getpgid(0):
            os.setsid()
        Path("/proc/self/autogroup").write_text("-20", encoding="ascii")
    scaling = {
        part: {name: on_threads(work, options.rounds) for name, work in source}
        for part, source in (("operator", operators()), ("training step", networks()))
    }
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for name, work in loops().items():
        turns = shared(name, work, options.rounds)
        for (load, threads, workers), turn in turns.items():
            if not workers:
                continue
            alone_ms = min(turns[one, threads, 0].iteration_ms - one for one in LOADS_MS)
            said = predicted_ms(name, alone_ms, load, threads, workers)
            figures.append(
                {"loop": name, "load_ms": load, "threads": threads, "workers": workers}
                | {"alone_ms": alone_ms, "predicted_ms": said, **asdict(turn)}
            )
            off = f"{100 * (said / turn.iteration_ms - 1):+.0f}%"
            times = (f"{one:.1f}" for one in (alone_ms, turn.iteration_ms, said))
            rows.append([name, f"{load:.0f}", str(threads), str(workers), *times, off, f"{turn.others:.2f}"])
    began = starts(options.rounds)
    errors = [abs(float(row[7][:-1])) for row in rows]
    quiet = [error for row, error in zip(rows, errors, strict=True) if float(row[8]) < 0.25]
    threads_rows = [
        [part, name, f"{one / 1e3:.3f}", f"{many / 1e3:.3f}", f"{one / many:.2f}"]
        for part, found in scaling.items()
        for name, (one, many) in found.items()
    ]
    body = "\n\n".join(
        [
            f"## One thread and {CORES}\n\n"
            + table(["what", "name", "ms on one", f"ms on {CORES}", "times as fast"], threads_rows),
            "## Threads, workers and cores\n\n"
            + table(
                [
                    "loop",
                    "load ms",
                    "threads",
                    "workers",
                    "alone ms",
                    "measured ms",
                    "predicted ms",
                    "error",
                    "others",
                ],
                rows,
            ),
            _NOTE.format(mean(errors), median(errors), mean(quiet) if quiet else float("nan")),
            "## Starting workers\n\n"
            + table(
                ["workers", "ms until the first batch"],
                [[str(one), f"{ms:.0f}"] for one, ms in began.items()],
            ),
        ]
    )
    everything = {"threads": scaling, "shared": figures, "start_ms": began}
    print(
        write(
            "worker_contention",
            "Threads, loader workers and cores",
            machine,
            body,
            everything,
            results=options.results,
        )
    )


if __name__ == "__main__":
    main()
