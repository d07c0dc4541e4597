"""Schedules of a pipeline: throughput, bubble, and memory of the first and last stage, by micro-batches per step.

    python benchmarks/plan_pipelines.py

A described transformer on one node of eight GPUs, one stage on each. 1F1B is the baseline. Nothing is measured.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

from machine import Machine
from result_file import table, write

from skyline.plan.cluster import cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.rank_memory import rank_memory
from skyline.plan.step import step_time
from skyline.plan.strategy import PipelineSchedule, Strategy
from skyline.plan.transformer import transformer_named
from skyline.plan.work import work_of
from skyline.predict.registry import predictor_for

MODEL, CLUSTER, STAGES = "llama3-8b", "dgx-a100", 8
MICRO_BATCHES = (1, 8, 32)
CHUNKS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule with a number of micro-batches in a step. ``bubble`` is a share of the step."""

    schedule: str
    micro_batches: int
    versions: int
    tokens_per_s: float
    bubble: float
    first_gb: float
    last_gb: float


def rows() -> list[Row]:
    """The rows of each schedule, for each number of micro-batches that it allows."""
    model, cluster = transformer_named(MODEL), cluster_named(CLUSTER).with_gpus(STAGES)
    kernels = KernelTimes(cluster.gpu, predictor_for(cluster.gpu))
    found: list[Row] = []
    for micro_batches in MICRO_BATCHES:
        for schedule in PipelineSchedule:
            chunks = CHUNKS if schedule is PipelineSchedule.INTERLEAVED else 1
            if chunks > 1 and micro_batches % STAGES:
                continue
            strategy = Strategy(pipeline=STAGES, accumulation=micro_batches, schedule=schedule, chunks=chunks)
            layers = model.layers(strategy)
            step = step_time(work_of(layers, kernels, strategy.precision), strategy, cluster)
            first, last = (rank_memory(layers, strategy, stage).peak_bytes for stage in (0, STAGES - 1))
            rate = strategy.samples_per_step * model.units_per_sample / step.total_us * 1e6
            share = step.bubble_us / step.total_us
            versions = strategy.weight_versions()
            found.append(Row(schedule.value, micro_batches, versions, rate, share, first / 1e9, last / 1e9))
    return found


def main() -> int:
    """Plan each schedule, and write the page."""
    machine = Machine.here()
    found = rows()
    base = {one.micro_batches: one.tokens_per_s for one in found if one.schedule == "1f1b"}
    head = (
        "micro-batches",
        "schedule",
        "versions",
        "tokens/s",
        "over 1F1B",
        "bubble",
        "first stage, GB",
        "last stage, GB",
    )
    cells = [
        (
            str(one.micro_batches),
            one.schedule,
            str(one.versions),
            f"{one.tokens_per_s:,.0f}",
            f"{one.tokens_per_s / base[one.micro_batches]:.2f}x",
            f"{one.bubble:.1%}",
            f"{one.first_gb:.1f}",
            f"{one.last_gb:.1f}",
        )
        for one in found
    ]
    body = (
        f"{MODEL} in mixed precision on {STAGES} GPUs of {CLUSTER}, one stage on each, one sample in a micro-batch. "
        "`async` has no flush. It updates after the given number of micro-batches, and uses older versions "
        "of the weights. It therefore changes the training. The other schedules do not. No step was "
        "measured.\n\n"
        f"{table(head, cells)}"
    )
    print(write("plan_pipelines", "Schedules of a pipeline", machine, body, [asdict(one) for one in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
