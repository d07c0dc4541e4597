"""Ranks of a job: the error of the predicted cost of a delayed rank, and the cost of reading hundreds of traces.

The delay is real: a data-parallel job of three processes runs on this machine (gloo, CPU), and one process sleeps for
a while in each step. The step without the delay is predicted only from its traces. The same job continues without the
delay, and is recorded again. Windows with and without the delay alternate. Windows without it come twice, for the null.

For the reading, traces of recorded ranks are copied under further rank numbers, as if the job had been larger, and
``skyline ranks`` reads the folder: with one process, with several, and on a local Dask cluster.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
from machine import Machine, warn_when_busy
from ratio import Ratio, is_steady
from result_file import RESULTS, table, write

from skyline.job.job import Job, job_of
from skyline.job.rank_reader import RankReader

RANKS, SLOW, STEPS = 3, 1, 12
WORK_S, DELAY_S = 0.03, 0.05
NULL_TOLERANCE = 0.15
"""Usual variation of processes that share cores with other programs. A round beyond it is not used."""
_WINDOWS = ("delayed", "without", "again")
_POLL_S = 0.05
TRAINING = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
rank, world, folder, work_s, delay_s, steps, rounds, port = (kind(text) for kind, text in zip(
    (int, int, str, float, float, int, int, int), sys.argv[1:]))
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=world)
layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(rounds):
    for window in ("delayed", "without", "again"):
        work = profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=steps))
        with work as profiler:
            for _ in range(steps + 2):
                time.sleep(work_s + (delay_s if window == "delayed" else 0))
                model(torch.randn(16, 256)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                profiler.step()
        os.makedirs(f"{folder}/{number}-{window}", exist_ok=True)
        profiler.export_chrome_trace(f"{folder}/{number}-{window}/rank{rank}.json.gz")
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Milliseconds per step of the job: with the delay, predicted without it, and measured without it, twice."""

    delayed: float
    predicted: float
    without: float
    again: float
    straggler: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One folder, read in one way. Memory is the peak of the sum over all processes."""

    folder: str
    ranks: int
    size_mb: float
    by: str
    seconds: float
    processor_s: float
    memory_mb: float
    replay_error: float | None


def run_job(count: int, folder: Path) -> None:
    """Run the job of three processes. The slow one sleeps longer in some windows of recording."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(rank), str(RANKS), str(folder), str(WORK_S),
             str(DELAY_S if rank == SLOW else 0.0), str(STEPS), str(count), str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    failed = [process.wait(60 + 60 * count) for process in processes]
    if any(failed):
        raise SystemExit("the job of the benchmark failed: is torch built with gloo?")


def read_job(folder: Path) -> Job:
    return job_of(map(RankReader(), map(str, sorted(folder.glob("rank*.json.gz")))))


def rounds(count: int) -> list[Round]:
    """The rounds. Each predicts only from the window with the delay."""
    found: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="skyline-ranks-") as scratch:
        run_job(count, Path(scratch))
        for number in range(count):
            delayed, without, again = (read_job(Path(scratch) / f"{number}-{window}") for window in _WINDOWS)
            predicted = delayed.evened.times.step_us if delayed.evened else delayed.measured.step_us
            found.append(
                Round(
                    delayed.measured.step_us / 1e3,
                    predicted / 1e3,
                    without.measured.step_us / 1e3,
                    again.measured.step_us / 1e3,
                    delayed.straggler,
                )
            )
    return found


def copies(sources: Sequence[Path], folder: Path, count: int) -> None:
    """Write traces of ``count`` ranks of one job, made of the given ones in turns."""
    folder.mkdir()
    texts = [gzip.decompress(source.read_bytes()).decode() for source in sources]
    for rank in range(count):
        text = texts[rank % len(texts)]
        # The facts of the job are JSON, or JSON within a string.
        for name, value in (("rank", rank), ("world_size", count)):
            text = re.sub(rf'(\\?"{name}\\?":\s*)\d+', rf"\g<1>{value}", text)
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(text.encode(), 1))


@contextmanager
def dask() -> Iterator[str]:
    """A scheduler and two workers of one thread each on this machine."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        silence_logs=50,
    ) as cluster:
        yield cluster.scheduler_address


def reading(folder: Path, by: str, options: Sequence[str]) -> Reading:
    """Run ``skyline ranks`` on a folder, and observe it from outside."""
    out = folder.parent / "report.json"
    watched = psutil.Process()
    process = psutil.Popen(
        [sys.executable, "-m", "skyline", "ranks", str(folder), "--json", str(out), "--quiet", *options],
        stdout=subprocess.DEVNULL,
    )
    before = _family_bytes(watched) - _family_bytes(process)
    begin, used = time.perf_counter(), _processor_s()
    highest = 0
    while process.poll() is None:
        highest = max(highest, _family_bytes(watched))
        time.sleep(_POLL_S)
    if process.returncode:
        raise SystemExit(f"skyline ranks failed on {folder}")
    report = json.loads(out.read_bytes())
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Reading(
        folder.name,
        len(report["ranks"]),
        size / 1e6,
        by,
        time.perf_counter() - begin,
        _processor_s() - used,
        (highest - before) / 1e6,
        report["replay_error"],
    )


def _processor_s() -> float:
    """Processor time of all processes started by this one, ended or running, in s."""
    times = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = [one.cpu_times() for one in psutil.Process().children(recursive=True) if one.is_running()]
    return times.ru_utime + times.ru_stime + sum(one.user + one.system for one in running)


def _family_bytes(process: psutil.Process) -> int:
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    for one in family:
        try:
            total += one.memory_info().rss
        except psutil.Error:
            continue
    return total


def readings(traces: Path, counts: Sequence[int]) -> list[Reading]:
    """Readings of folders of small and of large traces, for growing jobs."""
    small = sorted(traces.glob("param_dlrm_rank*of8.json.gz"))
    large = [traces / "hta_a100_rank3of8_recsys_control.json.gz"]
    found: list[Reading] = []
    with tempfile.TemporaryDirectory(prefix="skyline-ranks-") as scratch:
        for name, sources in (("small", small), ("large", large)):
            for count in counts if name == "small" else counts[:-1]:
                folder = Path(scratch) / f"{name} {count}"
                copies(sources, folder, count)
                found.append(reading(folder, "1 process", ["--processes", "1"]))
                found.append(reading(folder, "2 processes", ["--processes", "2"]))
                if find_spec("distributed") is not None:
                    with dask() as address:
                        found.append(reading(folder, "Dask, 2 workers", ["--cluster", address]))
    return found


def page(measured: Sequence[Round], read: Sequence[Reading]) -> str:
    """The figures as Markdown."""
    parts: list[str] = []
    if measured:
        steady = [one for one in measured if abs(one.again / one.without - 1) <= NULL_TOLERANCE]
        kept = steady or measured
        exact = sum(is_steady(one.again / one.without) for one in measured)
        rows = [
            ["predicted / measured", str(Ratio.of([one.predicted / one.without for one in kept]))],
            ["no change / measured", str(Ratio.of([one.delayed / one.without for one in kept]))],
            ["measured again / measured", str(Ratio.of([one.again / one.without for one in kept]))],
        ]
        step = statistics.median(one.without for one in kept)
        delayed = statistics.median(one.delayed for one in kept)
        right = sum(one.straggler == SLOW for one in measured)
        parts.append(
            f"## A delayed rank\n\nRank {SLOW} of {RANKS} sleeps for {DELAY_S * 1e3:.0f} ms in every step; a step "
            f"takes {delayed:.1f} ms with it and {step:.1f} ms without (medians). The straggler was named "
            f"correctly in {right} of {len(measured)} rounds. {len(kept)} rounds count. In these, two runs "
            f"without the delay agree to {NULL_TOLERANCE:.0%} (in {exact} rounds to 3 %)."
            f"\n\n{table(['step of the job', 'ratio'], rows)}"
        )
    if read:
        rows = [
            [one.folder.split()[0], str(one.ranks), f"{one.size_mb:.1f}", one.by, f"{one.seconds:.1f}",
             f"{one.processor_s:.1f}", f"{one.memory_mb:.0f}",
             "-" if one.replay_error is None else f"{one.replay_error:.2%}"]
            for one in read
        ]  # fmt: skip
        head = [
            "traces",
            "ranks",
            "MB, gzip",
            "read by",
            "s",
            "processor, s",
            "memory, MB",
            "simulation error",
        ]
        parts.append(
            "## Many ranks\n\nCopies of four recorded ranks of a small job, and of one rank of a larger one. "
            "Wall time and processor time are for the whole command. Memory is the peak of the sum over all "
            f"its processes, with the growth of the cluster's workers.\n\n{table(head, rows)}"
        )
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="a folder of profiler traces with the ranks of a job")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 32, 256])
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    machine = Machine.here()
    warn_when_busy(machine)
    measured = rounds(asked.rounds)
    read = readings(asked.traces, asked.ranks) if asked.ranks else []
    figures = {"rounds": [asdict(one) for one in measured], "reading": [asdict(one) for one in read]}
    print(
        write(
            "simulator_ranks", "Ranks of a job", machine, page(measured, read), figures, results=asked.results
        )
    )


if __name__ == "__main__":
    main()
