"""Plans, as a session answers with them; loaded by ``conftest.py``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.plan.strategy import Sharding, Strategy
from skyline.report.plan_report import (
    PLAN_SCHEMA,
    ClusterReport,
    PlanChoices,
    PlanReport,
    PlanRow,
    TooLargeRow,
)
from skyline.report.protocol import CommandResult, PlanExportParams, PlanParams, PlanTimelineParams
from skyline.report.timeline_report import TimelineReport
from skyline.report.timelines import Sides, TimelineWork, window

SOURCE = "a data sheet; written down for tests"


def _row(rank: int, sharding: Sharding, step_ms: float, memory_gb: float, *, paid: bool) -> PlanRow:
    strategy = Strategy(data=8, sharding=sharding, micro_batch=32)
    rate = Interval(256e3 / step_ms, 256e3 / (1.1 * step_ms), 256e3 / (0.9 * step_ms))
    hours = rate.inverse(10e6 / 3600) if paid else None
    slower = step_ms / 80.0 - 1
    return PlanRow(
        rank,
        strategy.label(),
        8,
        strategy,
        Interval(step_ms, 0.9 * step_ms, 1.1 * step_ms),
        rate,
        0.41 / (1 + slower),
        Interval(memory_gb * 1e9, memory_gb * 0.9e9, memory_gb * 1.1e9),
        {"parameters": 4e9, "gradients": 4e9, "optimizer": 8e9, "activations": (memory_gb - 16) * 1e9},
        {
            "computation": 70.0,
            "communication": step_ms - 75.0,
            "bubble": 0.0,
            "optimizer": 5.0,
        },
        f"communication {100 * (step_ms - 75) / step_ms:.0f} %",
        1 + slower,
        hours,
        hours.scaled(32.77) if hours is not None else None,
        "",
        ""
        if rank == 1
        else f"{100 * slower:.0f} % slower than the fastest on 8 GPUs: communication +{100 * slower:.0f} %",
        ("data_parallel=8",) if sharding is Sharding.NONE else (),
    )


def made_plan(asked: PlanParams) -> PlanReport:
    """Two rows, and a layout that does not fit."""
    paid = bool(asked.amount)
    rows = (
        _row(1, Sharding.NONE, 80.0, 31.0, paid=paid),
        _row(2, Sharding.ZERO_3, 92.0, 21.0, paid=paid),
    )
    if asked.gpus == "1":
        rows = ()
    return PlanReport(
        PLAN_SCHEMA,
        "modelled",
        asked.model or "train.py",
        "tokens" if asked.model else "samples",
        asked.cluster,
        "A100-80GB",
        SOURCE,
        144,
        18,
        {"does not fit the GPU's memory": 126},
        (TooLargeRow("ddp 8, micro-batch 64 x 1", 8, 97.1e9, 80.8e9),),
        "" if rows else "No strategy fits. Take more GPUs, or GPUs with more memory.",
        rows,
    )


def _sides() -> Sides:
    lane = np.array([0, 0, 1])
    start, end = np.array([0.0, 30.0, 40.0]), np.array([30.0, 70.0, 80.0])
    label, phase, place = np.array([0, 1, 2]), np.array([1, 2, 4]), np.array([-1, -1, -1])
    work = TimelineWork("ddp 8", 80.0, ("compute", "communication"), lane, start, end, label, phase, place)
    nothing = np.zeros(0, np.int64)
    none = TimelineWork("", 0.0, (), nothing, np.zeros(0), np.zeros(0), nothing, nothing, nothing)
    return Sides(0, 1, none, work, ("forward 0", "backward 0", "reduce 0"), ())


@dataclass
class FakePlans:
    """The part of a session that the page of plans asks."""

    script: Path
    post: object
    planned: list[PlanParams] = field(default_factory=list)
    opened: list[PlanTimelineParams] = field(default_factory=list)
    exported: list[PlanExportParams] = field(default_factory=list)
    no_plan: str = ""
    """Why there is no plan."""

    async def plan_choices(self) -> PlanChoices:
        named = ClusterReport("dgx-a100", "A100-80GB", 1, 8, 300.0, 200.0, 32.77, SOURCE)
        return PlanChoices((named, replace(named, name="dgx-h100", gpu="H100")), ("gpt2", "llama3-8b"))

    async def plan(self, asked: PlanParams) -> PlanReport:
        self.planned.append(asked)
        if self.no_plan:
            raise UsageError(self.no_plan, hint="Move model and batches with .to('cuda').")
        return made_plan(asked)

    async def plan_timeline(self, asked: PlanTimelineParams) -> TimelineReport:
        self.opened.append(asked)
        return window(_sides(), asked.beginMs, asked.endMs, asked.most)

    async def plan_export(self, asked: PlanExportParams) -> CommandResult:
        self.exported.append(asked)
        return CommandResult("written", path=str(self.script.parent / asked.path))
