"""The answer of ``skyline plan`` as a document for programs, and the timelines of its rows."""

from __future__ import annotations

import threading
from pathlib import Path

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec, cluster_named, cluster_names
from skyline.plan.constant import FRAGMENTATION
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.layers import ModelWork
from skyline.plan.money import Bill, bill, read_budget_usd, read_count, read_deadline_s
from skyline.plan.pipeline_cut import stage_layers
from skyline.plan.rank_memory import rank_memory
from skyline.plan.script_layers import TracedProgram
from skyline.plan.search import USABLE, Found, Request, StrategyRow, TooLarge, search
from skyline.plan.step import StepTime
from skyline.plan.strategy import Recompute, Sharding, Strategy
from skyline.plan.timeline import strategy_graph
from skyline.plan.transformer import transformer_names
from skyline.plan.work import work_of
from skyline.predict.operator_time import OperatorPredictor
from skyline.report.chrome_events import document, headings, lanes_of, simulated_events
from skyline.report.plan_order import Standing, ordered
from skyline.report.plan_report import (
    PLAN_SCHEMA,
    ClusterReport,
    PlanChoices,
    PlanReport,
    PlanRow,
    TooLargeRow,
)
from skyline.simulate.engine import Timeline, simulate

PROVENANCE = "modelled"
_PROCESS = 1
_LAYOUTS = 6
"""The largest number of layouts that do not fit in a report."""
_WRITTEN = {Sharding.NONE: "data_parallel", Sharding.ZERO_3: "fsdp"}
"""The rewrite that gives a script this sharding."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The amount of training, and the limits of its cost and time."""

    units: float | None = None
    budget_usd: float | None = None
    deadline_s: float | None = None

    @classmethod
    def read(cls, amount: str, budget: str, deadline: str, cluster: ClusterSpec) -> Terms:
        """Terms in words, such as ``10B``, ``$5000`` and ``3d``; an empty text sets no term.

        Raises:
            UsageError: a text cannot be read, or a budget or deadline lacks a figure that it needs.
        """
        terms = cls(
            read_count(amount) if amount else None,
            read_budget_usd(budget) if budget else None,
            read_deadline_s(deadline) if deadline else None,
        )
        if terms.units is None and (budget or deadline):
            raise UsageError(
                "a budget or a deadline needs the amount of training",
                hint="Give the number of tokens or samples, for example 10B",
            )
        if terms.budget_usd is not None and cluster.usd_per_node_hour is None:
            raise UsageError(
                f"the price of {cluster.name} is not known",
                hint="Set usd_per_node_hour in your own cluster description: docs/plan.md.",
            )
        return terms


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A ranked table, and the inputs of its rows' timelines."""

    model: ModelWork
    predictor: OperatorPredictor
    report: PlanReport
    _rows: tuple[StrategyRow, ...]

    def timeline(self, number: int) -> Timeline:
        """The simulated step of a row of the table; one rank stands for the equal ranks of its stage.

        Raises:
            UsageError: the table has no such row.
        """
        row = self._row(number)
        layers = self.model.layers(row.strategy)
        work = work_of(layers, KernelTimes(row.cluster.gpu, self.predictor), row.strategy.precision)
        return simulate(strategy_graph(work, row.strategy, row.cluster))

    def perfetto(self, number: int) -> bytes:
        """The step of a row for ui.perfetto.dev, gzipped.

        Raises:
            UsageError: the table has no such row.
        """
        timeline, row = self.timeline(number), self._row(number)
        lanes = lanes_of(timeline.graph.tasks.lanes)
        name = f"{self.model.name} on {row.cluster.gpus} x {row.cluster.gpu.name} ({PROVENANCE})"
        events = [*headings(_PROCESS, name, lanes), *simulated_events(_PROCESS, timeline, lanes)]
        about = {"model": self.model.name, "strategy": row.strategy.label(), "provenance": PROVENANCE}
        stages = stage_layers(self.model.layers(row.strategy), row.strategy)
        return document(events, {**about, **({"stages": stages} if stages else {})})

    def _row(self, number: int) -> StrategyRow:
        if not 1 <= number <= len(self._rows):
            raise UsageError(f"the table has no row {number}", hint=f"It has {len(self._rows)} rows.")
        return self._rows[number - 1]


def plan(
    model: ModelWork,
    cluster: ClusterSpec,
    sizes: list[ClusterSpec],
    predictor: OperatorPredictor,
    request: Request,
    terms: Terms,
    most: int,
    cancel: threading.Event | None = None,
) -> Plan:
    """Searches the strategies on each size of a cluster, and ranks the best ``most``.

    Raises:
        UsageError: the fixed sizes leave no strategy.
        Cancelled: ``cancel`` was set.
    """
    return ranked(
        model, cluster, search(model, sizes, predictor, request, cancel=cancel), predictor, terms, most
    )


def ranked(
    model: ModelWork,
    cluster: ClusterSpec,
    found: Found,
    predictor: OperatorPredictor,
    terms: Terms,
    most: int,
) -> Plan:
    """The best ``most`` rows, by throughput, or by cost with a deadline; rows with an objection come last.

    Among equally good rows, those that Skyline writes come first. Each size of the cluster has a row.
    """
    billed = [
        (row, bill(row.cluster, terms.units, row.units_per_s) if terms.units else None) for row in found.rows
    ]
    objections = [_objection(one, terms) for _, one in billed]
    written = [_written(model, row.strategy) for row in found.rows]
    order = ordered(
        [
            _standing(row, cost, bool(objections[index]), bool(written[index]), terms)
            for index, (row, cost) in enumerate(billed)
        ]
    )
    fastest: dict[int, StrategyRow] = {}
    for row in found.rows:
        fastest.setdefault(row.cluster.gpus, row)
    first: dict[int, int] = {}
    for index in order:
        first.setdefault(found.rows[index].cluster.gpus, index)
    # The best row of each size is always included, so that sizes can be compared.
    others = [index for index in order if index not in first.values()]
    order = sorted([*first.values(), *others[: max(0, most - len(first))]], key=order.index)[:most]
    best = max((row.units_per_s.value for row in found.rows), default=0.0)
    rows = tuple(
        _row(
            model,
            number,
            billed[index][0],
            billed[index][1],
            objections[index],
            best,
            fastest[billed[index][0].cluster.gpus],
            written[index],
        )
        for number, index in enumerate(order, start=1)
    )
    report = PlanReport(
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
        tuple(
            TooLargeRow(
                one.strategy.label(), one.cluster.gpus, one.peak_bytes, USABLE * cluster.gpu.memory_bytes
            )
            for one in sorted(found.too_large, key=_kinds)[:_LAYOUTS]
        ),
        "" if rows else _advice(found),
        rows,
    )
    return Plan(model, predictor, report, tuple(billed[index][0] for index in order))


def _standing(row: StrategyRow, cost: Bill | None, objection: bool, written: bool, terms: Terms) -> Standing:
    """All cluster sizes compare by cost; by throughput, clusters of different sizes are never equally good."""
    if terms.deadline_s is not None and cost is not None and cost.usd is not None:
        return Standing(objection, cost.usd, written)
    return Standing(objection, row.units_per_s.inverse(1.0), written, row.cluster.gpus)


def choices(folder: Path | None = None) -> PlanChoices:
    """The clusters and models that come with Skyline, and the clusters described in the folder's TOML files."""
    own: list[ClusterReport] = []
    for path in sorted(folder.glob("*.toml")) if folder is not None else ():
        try:
            own.append(_cluster_report(cluster_named(str(path)), path.name))
        except UsageError:
            continue  # a file about something else
    known = [_cluster_report(cluster_named(name), name) for name in cluster_names()]
    return PlanChoices((*own, *known), transformer_names())


def _cluster_report(cluster: ClusterSpec, name: str) -> ClusterReport:
    return ClusterReport(
        name,
        cluster.gpu.name,
        cluster.nodes,
        cluster.gpus_per_node,
        cluster.inside.gb_s,
        cluster.between.gb_s,
        cluster.usd_per_node_hour,
        cluster.source,
    )


def _advice(found: Found) -> str:
    if not found.too_large:
        reason = max(found.refused, key=lambda one: found.refused[one], default="no size divides the model")
        return f"No strategy can be used: {reason}. Take another number of GPUs."
    least: TooLarge = found.too_large[0]
    gpu = least.cluster.gpu
    return (
        f"No strategy fits. The least memory is that of {least.strategy.label()}: {least.peak_bytes / 1e9:.1f} GB of "
        f"the {USABLE * gpu.memory_bytes / 1e9:.1f} GB that can be used on the {gpu.name}. Take more GPUs, or GPUs "
        "with more memory."
    )


def _kinds(one: TooLarge) -> int:
    """The number of kinds of parallelism besides data parallelism: users ask about simple layouts first."""
    strategy = one.strategy
    return sum(size > 1 for size in (strategy.tensor, strategy.pipeline, strategy.context)) + strategy.offload


def _objection(cost: Bill | None, terms: Terms) -> str:
    if cost is None:
        return ""
    if terms.deadline_s is not None and cost.hours.value * 3600 > terms.deadline_s:
        return f"takes {cost.hours.value:.0f} h"
    if terms.budget_usd is not None and cost.usd is not None and cost.usd.value > terms.budget_usd:
        return f"costs ${cost.usd.value:,.0f}"
    return ""


def _row(
    model: ModelWork,
    number: int,
    row: StrategyRow,
    cost: Bill | None,
    objection: str,
    best: float,
    fastest: StrategyRow,
    whatifs: tuple[str, ...],
) -> PlanRow:
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
        {name: time_us / 1e3 for name, time_us in _parts_us(step).items()},
        row.limit,
        best / row.units_per_s.value,
        cost.hours if cost else None,
        cost.usd if cost else None,
        objection,
        "" if row is fastest else _why(row, fastest),
        whatifs,
        _stages(model, row.strategy),
        stage_layers(model.layers(row.strategy), row.strategy),
    )


def _stages(model: ModelWork, strategy: Strategy) -> tuple[float, ...]:
    if strategy.pipeline == 1:
        return ()
    layers = model.layers(strategy)
    return tuple(rank_memory(layers, strategy, stage).peak_bytes for stage in range(strategy.pipeline))


def _parts_us(step: StepTime) -> dict[str, float]:
    return {
        "computation": step.compute_us,
        "communication": step.exposed_us,
        "bubble": step.bubble_us,
        "optimizer": step.optimizer_us,
    }


def _why(row: StrategyRow, fastest: StrategyRow) -> str:
    """The additional time per token or sample, and the share of each part in it; the shares add up."""
    whole = fastest.step.total_us / fastest.units_per_step
    other = _parts_us(fastest.step)
    more = {
        name: (time_us / row.units_per_step - other[name] / fastest.units_per_step) / whole
        for name, time_us in _parts_us(row.step).items()
    }
    named = sorted(more.items(), key=lambda one: -one[1])
    causes = [f"{name} {share * 100:+.0f} %" for name, share in named if abs(share) >= 0.005]
    slower = f"{max(0.0, sum(more.values())) * 100:.0f} % slower than the fastest on {row.cluster.gpus} GPUs"
    return f"{slower}: {', '.join(causes)}" if causes else slower


def _written(model: ModelWork, strategy: Strategy) -> tuple[str, ...]:
    """The what-ifs whose rewrites turn a script into this strategy.

    ``data_parallel`` and ``fsdp`` write strategies whose ranks step after as many passes as the script.
    """
    if not isinstance(model, TracedProgram):
        return ()
    name = _WRITTEN.get(strategy.sharding)
    plain = Strategy(
        data=strategy.data,
        sharding=strategy.sharding,
        micro_batch=strategy.micro_batch,
        accumulation=model.passes,
        schedule=strategy.schedule,
        recompute=Recompute.NONE,
        precision=strategy.precision,
        compiled=strategy.compiled,
    )
    return (f"{name}={strategy.data}",) if name and strategy.data > 1 and strategy == plain else ()
