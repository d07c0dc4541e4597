"""Jobs made by hand: ranks whose collectives, clocks and delays are known, as summaries and as trace files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyline.graph.spans import Spans
from skyline.job.exchanges import Exchanges
from skyline.job.rank_work import RankWork

LAUNCH_US, LATENCY_US, PYTHON_US = 10.0, 6.0, 30.0


def rank_work(
    rank: int,
    spans: Sequence[tuple[float, float]],
    *,
    channels: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    base_us: float = 0.0,
    shift_us: float = 0.0,
    steps: Sequence[tuple[float, float]] | None = None,
    world_size: int = 0,
) -> RankWork:
    """A rank by the starts and ends of its collectives on the common clock; ``shift_us`` leads there from its own."""
    start = np.array([span[0] for span in spans]) - shift_us
    end = np.array([span[1] for span in spans]) - shift_us
    names = list(channels or ["stream 20"] * len(spans))
    what = list(kinds or ["all_reduce"] * len(spans))
    channel_table, kind_table = tuple(dict.fromkeys(names)), tuple(dict.fromkeys(what))
    bounds = np.array(steps if steps is not None else [(start.min(initial=0), end.max(initial=1))]) - (
        shift_us if steps is not None else 0.0
    )
    return RankWork(
        file=f"rank{rank}.json",
        rank=rank,
        world_size=world_size,
        base_ns=int(base_us * 1000),
        step_number=np.arange(len(bounds)),
        step_begin_us=bounds[:, 0],
        step_end_us=bounds[:, 1],
        marked=True,
        exchanges=Exchanges(
            kind_table,
            np.array([kind_table.index(one) for one in what], np.int32),
            channel_table,
            np.array([channel_table.index(one) for one in names], np.int32),
            np.zeros(len(spans), np.int64),
            start,
            end,
            np.arange(len(spans), dtype=np.int32),
        ),
        compute_us=0.0,
        computing=Spans(np.empty(0), np.empty(0)),
        on_gpu=True,
        device="Test GPU",
        notes=(),
    )


class RankWriter:
    """Writes one rank's trace: steps of two kernels and an all-reduce on one stream, and a synchronisation.

    ``done`` accepts fields that recent profilers write about a collective.
    """

    def __init__(self, rank: int, world_size: int, ahead_us: float, begin_us: float) -> None:
        self.rank, self.world_size = rank, world_size
        self.ahead_us = ahead_us
        self.clock_us = self.free_us = begin_us
        self.events: list[dict[str, Any]] = []
        self.correlation = 0

    def span(self, name: str, category: str, start: float, end: float, thread: int = 1, **given: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": thread, "tid": thread, "ts": start + self.ahead_us,
             "dur": end - start, "args": given}
        )  # fmt: skip

    def launch(self, name: str, duration_us: float) -> tuple[float, float]:
        """A launch and its kernel, which starts as soon as its stream is free; then Python."""
        self.correlation += 1
        call = self.clock_us
        self.span("cudaLaunchKernel", "cuda_runtime", call, call + LAUNCH_US, correlation=self.correlation)
        self.clock_us = call + LAUNCH_US + PYTHON_US
        start = max(call + LATENCY_US, self.free_us)
        self.kernel = (name, start, self.correlation)
        self.free_us = start + duration_us
        return start, self.free_us

    def done(self, end_us: float, **given: Any) -> None:
        """The end of the last kernel is known."""
        name, start, correlation = self.kernel
        self.free_us = end_us
        self.span(name, "kernel", start, end_us, 7, correlation=correlation, stream=7, device=0, **given)

    def synchronise(self) -> None:
        call, end = self.clock_us, max(self.clock_us + 5, self.free_us + 2)
        self.correlation += 1
        self.span("cudaDeviceSynchronize", "cuda_runtime", call, end, correlation=self.correlation)
        self.clock_us = end + PYTHON_US

    def save(self, folder: Path) -> Path:
        path = folder / f"rank{self.rank}.json.gz"
        content = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world_size},
            "deviceProperties": [{"id": 0, "name": "Test GPU"}],
            "traceEvents": self.events,
        }
        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(content, file)
        return path


def write_job(
    folder: Path,
    compute_us: Sequence[float],
    *,
    steps: int = 4,
    transfer_us: float = 200.0,
    ahead_us: Sequence[float] = (),
    begin_us: Sequence[float] = (),
    leave_out: Sequence[int] = (),
    world_size: int = 0,
    told: dict[str, Any] | None = None,
    busy_us: Sequence[float] = (),
) -> list[Path]:
    """Traces of a job whose rank ``r`` computes ``compute_us[r]`` a step, and whose clock is ``ahead_us[r]`` ahead.

    The host of rank ``r`` is busy for ``busy_us[r]`` between the kernels and the all-reduce.
    """
    ranks = range(len(compute_us))
    writers = [
        RankWriter(
            rank,
            world_size or len(compute_us),
            ahead_us[rank] if ahead_us else 0.0,
            1000.0 + (begin_us[rank] if begin_us else 0.0),
        )
        for rank in ranks
    ]
    for step in range(steps):
        began = [writer.clock_us for writer in writers]
        arrivals: list[float] = []
        for rank, writer, compute in zip(ranks, writers, compute_us, strict=True):
            writer.clock_us += PYTHON_US
            for _ in range(2):
                _, end = writer.launch("sgemm", compute / 2)
                writer.done(end)
            writer.clock_us += busy_us[rank] if busy_us else 0.0
            arrivals.append(writer.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 0.0)[0])
        for writer, begin in zip(writers, began, strict=True):
            writer.done(max(arrivals) + transfer_us, **(told or {}))
            writer.synchronise()
            writer.span(f"ProfilerStep#{step}", "user_annotation", begin, writer.clock_us)
    return [writer.save(folder) for writer in writers if writer.rank not in leave_out]


@pytest.fixture(scope="session")
def make_rank() -> Callable[..., RankWork]:
    return rank_work


@pytest.fixture
def job_on_disk(tmp_path: Path) -> Callable[..., list[Path]]:
    """Writes the traces of a job into an empty folder."""
    folder = tmp_path / "traces"
    folder.mkdir()
    return lambda *given, **more: write_job(folder, *given, **more)
