"""Search for strategies on a cluster: those that fit, ranked by the time of a sample."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from math import ceil

from skyline.errors import Cancelled, UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.layers import Layers, ModelWork
from skyline.plan.pipeline_cut import cut
from skyline.plan.rank_memory import RankMemory, largest_rank
from skyline.plan.schedule import usable_interleaving
from skyline.plan.step import StepTime, step_range, step_time
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy
from skyline.plan.work import Work, work_of
from skyline.predict.operator_time import OperatorPredictor

_EXACT = 24
"""Number of rows that are simulated and get a range. All others use the closed form."""
_MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
USABLE = 0.95
"""Share of the GPU's memory that a plan may fill. A fuller allocator frees and allocates memory in each step."""
_CHUNKS = 2
_MOST_ACCUMULATION = 512


@dataclass(frozen=True, slots=True)
class Request:
    """The space of the search: the precision, a global batch if given, and a fixed micro-batch if given.

    ``passes`` is the number of micro-batches in a step of the script, if the micro-batch is the script's own.
    """

    precision: Precision = Precision.MIXED
    global_batch: int | None = None
    micro_batch: int | None = None
    compiled: bool = False
    passes: int = 1
    topk: float | None = None
    """The share of gradients that data parallelism may send. Strategies that send all gradients remain."""
    asynchronous: bool = False
    """True to include pipelines without flushes, which change the training."""


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """One strategy that fits, with its step, its range in µs and its memory."""

    strategy: Strategy
    cluster: ClusterSpec
    step: StepTime
    step_us: Interval
    memory: RankMemory
    units_per_step: float
    mfu: float
    limit: str

    @property
    def units_per_s(self) -> Interval:
        """Tokens or samples per second of the whole job."""
        return self.step_us.inverse(self.units_per_step * 1e6)


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A strategy that does not fit the GPU, and the memory that it needs."""

    strategy: Strategy
    cluster: ClusterSpec
    peak_bytes: float


@dataclass(slots=True)
class Found:
    """The ranked rows, the number of strategies examined, and the number of refused ones by reason."""

    rows: list[StrategyRow] = field(default_factory=list[StrategyRow])
    considered: int = 0
    usable: int = 0
    """Number of strategies that fit. ``rows`` has the best one of each layout."""
    refused: dict[str, int] = field(default_factory=dict[str, int])
    too_large: list[TooLarge] = field(default_factory=list[TooLarge])
    """For each layout without a strategy that fits, the one with the least memory, sorted by it."""

    def refuse(self, reason: str) -> None:
        """Count a strategy that cannot be used."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def search(
    model: ModelWork,
    clusters: Sequence[ClusterSpec],
    predictor: OperatorPredictor,
    request: Request,
    most: int = 100_000,
    cancel: threading.Event | None = None,
) -> Found:
    """All strategies on each cluster, ranked by throughput. The best ones are simulated exactly.

    Raises:
        UsageError: the fixed sizes leave no strategy.
        Cancelled: ``cancel`` was set.
    """
    found = Found()
    too_large: dict[tuple[object, ...], TooLarge] = {}
    candidates: list[tuple[float, Strategy, ClusterSpec, Work, RankMemory]] = []
    for cluster in clusters:
        kernels = KernelTimes(cluster.gpu, predictor)
        split: dict[tuple[object, ...], tuple[Layers, Work]] = {}
        for asked in strategies(model, cluster, request):
            _check(cancel)
            if found.considered >= most:
                found.refuse(f"not searched: the search ends after {most:,} strategies")
                continue
            found.considered += 1
            reason = model.refusal(asked)
            if reason:
                found.refuse(reason)
                continue
            key = (asked.micro_batch, asked.tensor, asked.context, asked.expert)
            if key not in split:
                layers = model.layers(asked)
                split[key] = layers, work_of(layers, kernels, asked.precision)
            layers, work = split[key]
            strategy = cut(work, asked, cluster, USABLE * cluster.gpu.memory_bytes)
            memory = largest_rank(layers, strategy)
            if memory.peak_bytes > USABLE * cluster.gpu.memory_bytes:
                found.refuse("does not fit the GPU's memory")
                layout = _layout(strategy, cluster)
                if layout not in too_large or memory.peak_bytes < too_large[layout].peak_bytes:
                    too_large[layout] = TooLarge(strategy, cluster, memory.peak_bytes)
                continue
            step = step_time(work, strategy, cluster, exact=False)
            candidates.append((step.total_us / strategy.samples_per_step, strategy, cluster, work, memory))
    if not found.considered:
        raise UsageError(
            "no strategy has this global batch",
            hint="The batch must be a multiple of the ranks that share it.",
        )
    # Ties go to the strategy without recomputation, then to the one with less memory.
    effort = list(Recompute)
    candidates.sort(
        key=lambda one: (
            round(one[0] * one[2].gpus),
            effort.index(one[1].recompute),
            one[4].peak_bytes,
        )
    )
    best: dict[tuple[object, ...], tuple[float, Strategy, ClusterSpec, Work, RankMemory]] = {}
    for one in candidates:
        best.setdefault(_layout(one[1], one[2]), one)
    found.usable = len(candidates)
    none_fits = (one for layout, one in too_large.items() if layout not in best)
    found.too_large = sorted(none_fits, key=lambda one: one.peak_bytes)
    order = sorted(best.values(), key=lambda one: one[0])
    sized: set[int] = set()
    for number, (_, strategy, cluster, work, memory) in enumerate(order):
        _check(cancel)
        # The table shows the best row of each size, however slow it is.
        exact = number < _EXACT or cluster.gpus not in sized
        sized.add(cluster.gpus)
        found.rows.append(_row(model, strategy, cluster, work, memory, exact=exact))
    found.rows.sort(key=lambda row: -row.units_per_s.value)
    return found


def _check(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled("The search was cancelled")


def _layout(strategy: Strategy, cluster: ClusterSpec) -> tuple[object, ...]:
    """The layout of a strategy. Strategies with the same layout differ in micro-batches, recomputation and schedule."""
    return (
        cluster.gpus,
        strategy.sharding,
        strategy.tensor,
        strategy.pipeline,
        strategy.context,
        strategy.offload,
        strategy.sent,
        strategy.schedule.flushes,
    )


def _row(
    model: ModelWork, strategy: Strategy, cluster: ClusterSpec, work: Work, memory: RankMemory, *, exact: bool
) -> StrategyRow:
    if exact:
        step, total = step_range(work, strategy, cluster)
    else:
        step = step_time(work, strategy, cluster, exact=False)
        total = Interval.exact(step.total_us)
    samples = strategy.samples_per_step
    peak = (cluster.gpu.tflops_bf16 or cluster.gpu.tflops_fp16 or cluster.gpu.tflops_fp32) * 1e6
    mfu = samples * model.flops_per_sample / (step.total_us * peak * strategy.ranks)
    return StrategyRow(
        strategy, cluster, step, total, memory, samples * model.units_per_sample, mfu, limit_of(step)
    )


def limit_of(step: StepTime) -> str:
    """The part of the step, other than computation, that costs the most time."""
    losses = {
        "communication": step.exposed_us,
        "pipeline bubble": step.bubble_us,
        "optimizer": step.optimizer_us,
    }
    name = max(losses, key=lambda one: losses[one])
    share = losses[name] / step.total_us
    return f"{name} {share * 100:.0f} %" if share >= 0.03 else "computation"


def strategies(model: ModelWork, cluster: ClusterSpec, request: Request) -> Iterator[Strategy]:
    """All combinations of sizes that use every GPU exactly once."""
    ranks = cluster.gpus
    for tensor in _divisors(min(ranks, cluster.gpus_per_node), ranks):
        for pipeline in _divisors(min(ranks // tensor, model.block_count), ranks // tensor):
            for context in _divisors(min(16, ranks // (tensor * pipeline)), ranks // (tensor * pipeline)):
                data = ranks // (tensor * pipeline * context)
                base = Strategy(
                    data=data,
                    tensor=tensor,
                    pipeline=pipeline,
                    context=context,
                    precision=request.precision,
                    compiled=request.compiled,
                )
                yield from _variants(base, model, request)


def _variants(base: Strategy, model: ModelWork, request: Request) -> Iterator[Strategy]:
    shardings = list(Sharding) if base.data * base.context > 1 else [Sharding.NONE]
    for micro_batch in (request.micro_batch,) if request.micro_batch else _MICRO_BATCHES:
        for accumulation in _accumulations(base, micro_batch, request):
            for sharding in shardings:
                for recompute in Recompute:
                    for schedule, chunks in _schedules(base, accumulation, model.block_count, request):
                        one = replace(
                            base,
                            micro_batch=micro_batch,
                            accumulation=accumulation,
                            sharding=sharding,
                            recompute=recompute,
                            schedule=schedule,
                            chunks=chunks,
                        )
                        yield one
                        if base.pipeline == 1 and sharding in (Sharding.NONE, Sharding.ZERO_3):
                            yield replace(one, offload=True)
                        if request.topk is not None and sharding is Sharding.NONE and len(shardings) > 1:
                            yield replace(one, sent=request.topk)


def _accumulations(base: Strategy, micro_batch: int, request: Request) -> tuple[int, ...]:
    if request.global_batch is not None:
        passes, rest = divmod(request.global_batch, base.data * micro_batch)
        return (passes,) if not rest and 1 <= passes <= _MOST_ACCUMULATION else ()
    if base.pipeline > 1:
        # Without flushes, a step may consist of a single micro-batch.
        least = (1,) if request.asynchronous else ()
        filled = (base.pipeline * factor for factor in (1, 4, 8))
        return (*least, *(passes for passes in filled if passes <= _MOST_ACCUMULATION))
    if request.micro_batch is None:
        return 1, 8
    # A script keeps its number of batches per step, or the ranks share these batches.
    return tuple({ceil(request.passes / base.data), request.passes})


def _schedules(
    base: Strategy, accumulation: int, blocks: int, request: Request
) -> Iterator[tuple[PipelineSchedule, int]]:
    if base.pipeline == 1:
        yield PipelineSchedule.ONE_F_ONE_B, 1
        return
    if request.asynchronous:
        yield PipelineSchedule.ASYNCHRONOUS, 1
        if accumulation == 1 and request.global_batch is None:
            # Other schedules would leave all stages but one idle.
            return
    yield PipelineSchedule.GPIPE, 1
    yield PipelineSchedule.ONE_F_ONE_B, 1
    yield PipelineSchedule.ZERO_BUBBLE, 1
    if usable_interleaving(base.pipeline, accumulation, blocks, _CHUNKS):
        yield PipelineSchedule.INTERLEAVED, _CHUNKS


def _divisors(most: int, ranks: int) -> tuple[int, ...]:
    """Powers of two and other divisors of the ranks, up to ``most``."""
    return tuple(one for one in range(1, min(most, 64) + 1) if ranks % one == 0)
