"""The answer of ``skyline plan`` as a document for programs, and the timeline of one of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from skyline.interval import Interval
from skyline.plan.cluster import ClusterSpec
from skyline.plan.constant import FRAGMENTATION
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.layers import ModelWork
from skyline.plan.money import Bill, bill
from skyline.plan.search import Found, StrategyRow
from skyline.plan.step import work_of
from skyline.plan.strategy import Strategy
from skyline.plan.timeline import strategy_graph
from skyline.predict.operator_time import OperatorPredictor
from skyline.report.chrome_events import document, headings, lanes_of, simulated_events
from skyline.simulate.engine import simulate

PLAN_SCHEMA = "skyline.plan/1"
PROVENANCE = "modelled"
_PROCESS = 1


class PlanRow(msgspec.Struct, frozen=True):
    """One strategy on one size of the cluster. Times in ms, memory in bytes."""

    rank: int
    label: str
    gpus: int
    strategy: Strategy
    step_ms: Interval
    units_per_s: Interval
    mfu: float
    memory_bytes: Interval
    memory_parts: dict[str, float]
    step_parts_ms: dict[str, float]
    limit: str
    slower_than_best: float
    hours: Interval | None
    usd: Interval | None
    objection: str
    """Why the row misses the budget or the deadline; empty if it does not."""


class PlanReport(msgspec.Struct, frozen=True):
    """A ranked table of strategies. ``provenance`` is that of every figure."""

    schema: str
    provenance: str
    model: str
    unit: str
    cluster: str
    gpu: str
    source: str
    considered: int
    fitting: int
    refused: dict[str, int]
    closest: str
    rows: tuple[PlanRow, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """The amount of training, and what it may cost and take."""

    units: float | None = None
    budget_usd: float | None = None
    deadline_s: float | None = None


def plan_report(model: ModelWork, cluster: ClusterSpec, found: Found, terms: Terms, most: int) -> PlanReport:
    """The best ``most`` rows, by throughput, or by cost if there is a deadline; rows with an objection come last."""
    billed = [
        (row, bill(row.cluster, terms.units, row.units_per_s) if terms.units else None) for row in found.rows
    ]
    objections = [_objection(one, terms) for _, one in billed]
    cheapest = terms.deadline_s is not None

    def key(index: int) -> tuple[bool, float]:
        cost = billed[index][1]
        usd = cost.usd.value if cheapest and cost and cost.usd else 0.0
        return bool(objections[index]), usd

    order = sorted(range(len(billed)), key=key)[:most]
    best = max((row.units_per_s.value for row in found.rows), default=0.0)
    rows = tuple(
        _row(number, billed[index][0], billed[index][1], objections[index], best)
        for number, index in enumerate(order, start=1)
    )
    closest = ""
    if found.closest is not None and not found.rows:
        closest = f"{found.closest[0].label()} needs {found.closest[1] / 1e9:.1f} GB"
    return PlanReport(
        PLAN_SCHEMA,
        PROVENANCE,
        model.name,
        model.unit,
        cluster.name,
        cluster.gpu.name,
        cluster.source,
        found.considered,
        found.usable,
        dict(sorted(found.refused.items(), key=lambda one: -one[1])),
        closest,
        rows,
    )


def _objection(cost: Bill | None, terms: Terms) -> str:
    if cost is None:
        return ""
    if terms.deadline_s is not None and cost.hours.value * 3600 > terms.deadline_s:
        return f"takes {cost.hours.value:.0f} h"
    if terms.budget_usd is not None and cost.usd is not None and cost.usd.value > terms.budget_usd:
        return f"costs ${cost.usd.value:,.0f}"
    return ""


def _row(number: int, row: StrategyRow, cost: Bill | None, objection: str, best: float) -> PlanRow:
    memory, step = row.memory, row.step
    moving = FRAGMENTATION.value
    return PlanRow(
        number,
        row.strategy.label(),
        row.cluster.gpus,
        row.strategy,
        row.step_us.scaled(1e-3),
        row.units_per_s,
        row.mfu,
        memory.peak,
        {
            "parameters": memory.parameters,
            "gradients": memory.gradients,
            "optimizer": memory.optimizer,
            "activations": memory.activations * moving,
            "buffers": memory.buffers * moving,
            "fixed": memory.fixed,
        },
        {
            "computation": step.compute_us / 1e3,
            "communication": step.exposed_us / 1e3,
            "bubble": step.bubble_us / 1e3,
            "optimizer": step.optimizer_us / 1e3,
        },
        row.limit,
        best / row.units_per_s.value,
        cost.hours if cost else None,
        cost.usd if cost else None,
        objection,
    )


def plan_timeline(
    model: ModelWork, rows: Sequence[StrategyRow], label: str, predictor: OperatorPredictor
) -> bytes | None:
    """The step of the row with this label for Perfetto, gzipped; None if there is no such row."""
    row = next((one for one in rows if one.strategy.label() == label), None)
    if row is None:
        return None
    layers = model.layers(row.strategy)
    work = work_of(layers, KernelTimes(row.cluster.gpu, predictor), row.strategy.precision)
    timeline = simulate(strategy_graph(work, row.strategy, row.cluster))
    lanes = lanes_of(timeline.graph.tasks.lanes)
    name = f"{model.name} on {row.cluster.gpus} x {row.cluster.gpu.name} ({PROVENANCE})"
    events = [*headings(_PROCESS, name, lanes), *simulated_events(_PROCESS, timeline, lanes)]
    return document(events, {"model": model.name, "strategy": label, "provenance": PROVENANCE})
