"""The time of an optimizer step of one strategy: computation, exposed communication, pipeline and update."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

from skyline.graph.graph import Graph
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.collective import (
    Fabric,
    all_gather_us,
    all_reduce_us,
    all_to_all_us,
    group_of,
    reduce_scatter_us,
    send_us,
    sparse_all_reduce_us,
    sparse_parts,
)
from skyline.plan.constant import (
    ASYNC_TENSOR_HIDDEN,
    CONTENTION,
    EXPOSED_EXCHANGE,
    EXPOSED_LATENCY,
    OPTIMIZER_PASSES,
    SELECTION_PASSES,
)
from skyline.plan.kernel_time import PartTime, WorkTime
from skyline.plan.rank_memory import stage_parts
from skyline.plan.schedule import StageTime, orders, pipeline_bound_us, pipeline_graph, step_us
from skyline.plan.stage_cut import BlockTimes, slowest_stage_us
from skyline.plan.strategy import Recompute, Sharding, Strategy
from skyline.plan.waiting import waiting_share
from skyline.plan.work import Work
from skyline.simulate.engine import simulate

_SPREAD = {"product": 0.12, "attention": 0.25, "other": 0.3, "link": 0.35, "waiting": 1.5}
"""Relative error of each group of times. Errors of different groups are independent."""


@dataclass(frozen=True, slots=True)
class StepFactors:
    """Factors on the times of each group, to find how the step depends on them."""

    product: float = 1.0
    attention: float = 1.0
    other: float = 1.0
    link: float = 1.0
    waiting: float = 1.0
    contention: float = CONTENTION.value
    latency: float = EXPOSED_LATENCY.value

    def compute(self, time: WorkTime) -> float:
        """The time of a part with these factors, in µs."""
        return (
            time.product_us * self.product + time.attention_us * self.attention + time.other_us * self.other
        )


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step in µs on the slowest stage. The parts add up to the step."""

    compute_us: float
    exposed_us: float
    """Communication during which the GPU computes nothing, and the slowdown of computation by communication."""
    bubble_us: float
    optimizer_us: float

    @property
    def total_us(self) -> float:
        """The duration of the step."""
        return self.compute_us + self.exposed_us + self.bubble_us + self.optimizer_us


def step_range(work: Work, strategy: Strategy, cluster: ClusterSpec) -> tuple[StepTime, Interval]:
    """The step and its range in µs: each group of times is varied in turn, and the effects are added in quadrature."""
    step = step_time(work, strategy, cluster)
    below = above = 0.0
    middle = step_time(work, strategy, cluster, exact=False)
    for group, spread in _SPREAD.items():
        if group == "waiting" and not work.single_device:
            continue
        high = step_time(work, strategy, cluster, StepFactors(**{group: 1 + spread}), exact=False)
        low = step_time(work, strategy, cluster, StepFactors(**{group: 1 / (1 + spread)}), exact=False)
        above += (high.total_us - middle.total_us) ** 2
        below += (middle.total_us - low.total_us) ** 2
    total = step.total_us
    return step, Interval(total, max(total / 3, total - sqrt(below)), total + sqrt(above))


def step_time(
    work: Work,
    strategy: Strategy,
    cluster: ClusterSpec,
    factors: StepFactors | None = None,
    *,
    exact: bool = True,
) -> StepTime:
    """The step on the slowest stage. ``exact`` simulates a pipeline; otherwise a closed form is used."""
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), factors or StepFactors())
    optimizer = stage.optimizer_us()
    if strategy.pipeline == 1:
        busy = sum(stage.micro_batch())
        compute = stage.compute_us() * strategy.accumulation
        sync = stage.gradient_us(busy_us=stage.blocks * stage.block_backward_us)
        moving = busy * strategy.accumulation + sync
        if work.single_device and strategy.ranks > 1:
            waiting = waiting_share(strategy.precision, images=work.layers.host_images)
            moving += compute * waiting * stage.factors.waiting
            moving += stage.late_exchange_us(busy_us=stage.blocks * stage.block_backward_us)
        return StepTime(compute, max(0.0, moving - compute), 0.0, optimizer)
    loads = stage.loads()
    slowest = max(loads, key=lambda load: load.time.both_us)
    compute, ideal = (one * strategy.accumulation for one in (slowest.compute_us, slowest.time.both_us))
    sync = stage.gradient_us(busy_us=0.0)
    step = stage.pipeline_us(loads, sync, optimizer, exact=exact)
    bubble = max(0.0, step - ideal - sync - optimizer)
    return StepTime(compute, max(0.0, ideal - compute) + sync, bubble, optimizer)


def pipeline_timeline(work: Work, strategy: Strategy, cluster: ClusterSpec) -> Graph:
    """The stages of a pipeline as a graph: one step, or without flushes twice the number that fills the pipeline.

    One rank stands for the equal ranks of its stage.
    """
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), StepFactors())
    return stage.graph(stage.loads(), stage.gradient_us(busy_us=0.0), stage.optimizer_us())


def block_times(work: Work, strategy: Strategy, cluster: ClusterSpec) -> BlockTimes:
    """The times for the cut of blocks into stages."""
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), StepFactors())
    forward, kept = stage.block_us(Recompute.NONE)
    _, again = stage.block_us()
    return BlockTimes(forward + kept, again - kept, work.first.total_us, work.last.total_us)


def again_us(part: PartTime, recompute: Recompute, factors: StepFactors | None = None) -> float:
    """Computation that the backward pass of a part repeats, in µs."""
    compute = (factors or StepFactors()).compute
    if recompute is Recompute.FULL:
        return compute(part.again)
    if recompute is Recompute.SELECTIVE:
        return compute(WorkTime(part.forward.product_us / 2, 0.0, part.forward.other_us))
    return 0.0


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """Times in µs of one of equal blocks of a rank without a pipeline, and of the rest of its step."""

    blocks: int
    forward_us: float
    backward_us: float
    gather_us: float
    scatter_us: float
    ends_us: float
    optimizer_us: float
    sharded: bool
    """True if each micro-batch scatters its gradients, not only the last one."""


def stream_times(work: Work, strategy: Strategy, cluster: ClusterSpec) -> StreamTimes:
    """The times for the timeline of one rank."""
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), StepFactors())
    gather, scatter = stage.sharded_us()
    sharded = scatter > 0
    if not sharded:
        scatter = stage.gradient_us(busy_us=0.0) / stage.blocks
    forward, backward = stage.block_us()
    slowed = stage.factors.contention
    return StreamTimes(
        stage.blocks,
        forward + slowed * min(forward, gather),
        backward + slowed * min(backward, gather + scatter),
        gather,
        scatter,
        sum(stage.ends_us()),
        stage.optimizer_us(),
        sharded,
    )


@dataclass(frozen=True, slots=True)
class _Load:
    """A micro-batch on one stage, and its computation."""

    time: StageTime
    compute_us: float


@dataclass(frozen=True, slots=True)
class _Stage:
    work: Work
    strategy: Strategy
    cluster: ClusterSpec
    fabric: Fabric
    factors: StepFactors

    @property
    def blocks(self) -> int:
        """The number of blocks of the largest stage."""
        cut = self.strategy.stage_blocks
        return max(cut) if cut else ceil(self.work.layers.blocks / self.strategy.pipeline)

    def _recomputed_us(self, recompute: Recompute) -> float:
        """Computation that the backward pass of a block repeats, in µs."""
        return again_us(self.work.block, recompute, self.factors)

    def ends_us(self) -> tuple[float, float]:
        """Forward and backward time of the first and last part. In a pipeline, the slowest stage's share of them."""
        first, last, compute = self.work.first, self.work.last, self.factors.compute
        if self.strategy.pipeline == 1:
            return (
                compute(first.forward) + compute(last.forward),
                compute(first.backward) + compute(last.backward),
            )
        block = self._block_compute_us(self.strategy.recompute)
        load = slowest_stage_us(
            self.work.layers.blocks,
            self.strategy.pipeline,
            block,
            compute(first.forward) + compute(first.backward),
            compute(last.forward) + compute(last.backward),
        )
        more = max(0.0, load - self.blocks * block)
        return more / 3, more * 2 / 3

    @property
    def block_backward_us(self) -> float:
        """The backward time of one block. The gradients of later blocks are reduced meanwhile."""
        return self.factors.compute(self.work.block.backward)

    def _block_compute_us(self, recompute: Recompute) -> float:
        block, compute = self.work.block, self.factors.compute
        return compute(block.forward) + compute(block.backward) + self._recomputed_us(recompute)

    def compute_us(self) -> float:
        """Computation of one micro-batch on the stage, in µs."""
        return self.blocks * self._block_compute_us(self.strategy.recompute) + sum(self.ends_us())

    def loads(self) -> list[_Load]:
        """A micro-batch on each stage of a pipeline. Without a cut, all stages are equal to the slowest one."""
        strategy, compute = self.strategy, self.factors.compute
        weights = compute(self.work.block.backward) / 2
        if not strategy.stage_blocks:
            time = StageTime(*self.micro_batch(), weights * self.blocks)
            return [_Load(time, self.compute_us())] * strategy.pipeline
        if self.work.chain:
            return self._chain_loads()
        forward, kept = self.block_us(Recompute.NONE)
        _, again = self.block_us()
        plain, more = self._block_compute_us(Recompute.NONE), self._recomputed_us(strategy.recompute)
        known: dict[tuple[int, int, bool, bool], _Load] = {}
        found: list[_Load] = []
        for stage, blocks in enumerate(strategy.stage_blocks):
            recomputed = strategy.recomputed_on(stage, blocks)
            key = blocks, recomputed, stage == 0, stage == strategy.pipeline - 1
            if key not in known:
                ends = [self.work.first] * key[2] + [self.work.last] * key[3]
                ahead, back = self._computed_us(ends)
                behind = (blocks - recomputed) * kept + recomputed * again + back
                time = StageTime(blocks * forward + ahead, behind, blocks * weights)
                known[key] = _Load(time, blocks * plain + recomputed * more + ahead + back)
            found.append(known[key])
        return found

    def _computed_us(self, parts: Sequence[PartTime]) -> tuple[float, float]:
        """Time of the forward and backward pass of parts, without recomputation."""
        compute = self.factors.compute
        return sum(compute(part.forward) for part in parts), sum(compute(part.backward) for part in parts)

    def _chain_loads(self) -> list[_Load]:
        """A micro-batch on each stage of different layers. In a stage, either all layers recompute or none."""
        found: list[_Load] = []
        start = 0
        for stage, count in enumerate(self.strategy.stage_blocks):
            parts = self.work.chain[start : start + count]
            start += count
            ahead, back = self._computed_us(parts)
            again = self.strategy.recomputed_on(stage, count)
            more = (
                sum(again_us(part, self.strategy.recompute, self.factors) for part in parts) if again else 0.0
            )
            found.append(_Load(StageTime(ahead, back + more, back / 2), ahead + back + more))
        return found

    def block_us(self, recompute: Recompute | None = None) -> tuple[float, float]:
        """Forward and backward time of a block with its internal communication and the strategy's recomputation."""
        recompute = recompute or self.strategy.recompute
        inside = self._tensor_us() + self._expert_us()
        context = self._context_us()
        forward = self.factors.compute(self.work.block.forward)
        backward = self.factors.compute(self.work.block.backward) + self._recomputed_us(recompute)
        repeats = 2 if recompute is Recompute.FULL else 1
        around = (1 + repeats) * context
        slowed = self.factors.contention
        return (
            max(forward + slowed * min(forward, context), context) + inside,
            max(backward + slowed * min(backward, around), around) + inside * repeats,
        )

    def micro_batch(self) -> tuple[float, float]:
        """Forward and backward time of one micro-batch, with the communication that it waits for."""
        gather, reduce = self.sharded_us()
        forward, backward = self.block_us()
        ends = self.ends_us()
        late = self.blocks * self._late_us()
        return (
            streamed(self.blocks, forward, gather, self.factors.contention) + ends[0] + late,
            streamed(self.blocks, backward, gather + reduce, self.factors.contention)
            + reduce
            + ends[1]
            + 2 * late,
        )

    def _late_us(self) -> float:
        """The wait for the slowest rank of a collective, which prefetching does not hide."""
        strategy = self.strategy
        if strategy.sharding is not Sharding.ZERO_3 or strategy.pipeline > 1:
            return 0.0
        group = group_of(self.cluster, strategy.data * strategy.context, strategy.tensor)
        return self.fabric.ring_latency_us(group) * self.factors.latency * self.factors.link

    def sharded_us(self) -> tuple[float, float]:
        """Time to gather the parameters of a block and to scatter its gradients, for each micro-batch."""
        strategy = self.strategy
        if strategy.sharding is not Sharding.ZERO_3 or strategy.pipeline > 1:
            return 0.0, 0.0
        layers = self.work.layers
        group = group_of(self.cluster, strategy.data * strategy.context, strategy.tensor)
        numbers = layers.block.parameters - layers.expert_parameters
        experts = group_of(
            self.cluster, max(1, group.size // strategy.expert), strategy.tensor * strategy.expert
        )
        width, gradient = strategy.precision.width_bytes, strategy.precision.gradient_bytes
        gather = all_gather_us(self.fabric, group, width * numbers)
        gather += all_gather_us(self.fabric, experts, width * layers.expert_parameters)
        reduce = reduce_scatter_us(self.fabric, group, gradient * numbers)
        reduce += reduce_scatter_us(self.fabric, experts, gradient * layers.expert_parameters)
        return gather * self.factors.link, reduce * self.factors.link

    def _tensor_us(self) -> float:
        """Time of two reductions of the activation per direction, as gathers and scatters of parts of the sequence."""
        ways = self.strategy.tensor
        if ways == 1:
            return 0.0
        time = 2 * all_reduce_us(self.fabric, group_of(self.cluster, ways, 1), self.work.layers.tensor_bytes)
        hidden = ASYNC_TENSOR_HIDDEN.value if self.strategy.async_tensor else 0.0
        return time * (1 - hidden) * self.factors.link

    def _context_us(self) -> float:
        """Time of keys and values around the ring of context parallelism, which runs during attention."""
        ways = self.strategy.context
        if ways == 1:
            return 0.0
        near = ways * self.strategy.tensor <= self.cluster.gpus_per_node
        hop = send_us(self.fabric, self.work.layers.context_bytes, same_node=near)
        return (ways - 1) * hop * self.factors.link

    def _expert_us(self) -> float:
        """Time to send tokens to the experts and back."""
        if self.strategy.expert == 1:
            return 0.0
        group = group_of(self.cluster, self.strategy.expert, self.strategy.tensor)
        return 2 * all_to_all_us(self.fabric, group, self.work.layers.expert_bytes) * self.factors.link

    def _parameters(self) -> float:
        """Number of parameters of the largest stage. All stages share both ends."""
        layers, strategy = self.work.layers, self.strategy
        if layers.chain and strategy.stage_blocks:
            stages = (stage_parts(layers, strategy, stage) for stage in range(strategy.pipeline))
            return max(sum(part.parameters for part in parts) for parts in stages)
        ends = (layers.first.parameters + layers.last.parameters) / strategy.pipeline
        return layers.block.parameters * self.blocks + ends

    def gradient_us(self, busy_us: float) -> float:
        """Exposed time of the gradients' exchange once per step. A backward pass of ``busy_us`` hides it partly."""
        strategy = self.strategy
        size = strategy.data * strategy.context
        if size == 1 or (strategy.sharding is Sharding.ZERO_3 and strategy.pipeline == 1):
            return 0.0
        group = group_of(self.cluster, size, strategy.tensor)
        numbers = self._parameters()
        width = strategy.precision.gradient_bytes
        if strategy.sent < 1:
            choosing = SELECTION_PASSES.value * width * numbers / sparse_parts(group)
            after = choosing / (self.cluster.gpu.bandwidth_gb_s * 1e3)
            reduce = sparse_all_reduce_us(self.fabric, group, width * numbers, strategy.sent)
            last = reduce / max(1, self.blocks)
        elif strategy.sharding is Sharding.NONE:
            reduce, after = all_reduce_us(self.fabric, group, width * numbers), 0.0
            last = reduce / max(1, self.blocks)
        else:
            reduce = reduce_scatter_us(self.fabric, group, width * numbers)
            after = all_gather_us(self.fabric, group, strategy.precision.width_bytes * numbers)
            last = reduce / max(1, self.blocks)
        reduce, after, last = (one * self.factors.link for one in (reduce, after, last))
        hidden = min(max(0.0, reduce - last), busy_us)
        return reduce - hidden * (1 - self.factors.contention) + after

    def late_exchange_us(self, busy_us: float) -> float:
        """Exposed time of a script's exchange inside a node, in excess of ``gradient_us``.

        It is fitted to replicas. Shards are assumed to take the same: no published runs distinguish them.
        """
        size = self.strategy.data * self.strategy.context
        group = group_of(self.cluster, size, self.strategy.tensor)
        if size == 1 or group.nodes > 1 or self.strategy.sent < 1:
            return 0.0
        width = self.strategy.precision.gradient_bytes
        reduce = all_reduce_us(self.fabric, group, width * self._parameters()) * self.factors.link
        hidden = min(reduce - reduce / max(1, self.blocks), busy_us)
        seen = reduce - hidden * (1 - self.factors.contention)
        return max(0.0, reduce * EXPOSED_EXCHANGE.value - seen)

    def optimizer_us(self) -> float:
        """The time of the update of the rank's share: Adam reads four tensors and writes three.

        Without flushes it also writes the weights predicted for the gradient's time (Kosson et al. 2021).
        """
        strategy, numbers = self.strategy, self._parameters()
        if strategy.sharding is not Sharding.NONE:
            numbers /= strategy.data * strategy.context
        width = strategy.precision.gradient_bytes
        if strategy.offload:
            # Gradients move to the host and parameters back. The host's memory limits the update there.
            bus = (self.cluster.gpu.pcie_gb_s or 32.0) / 2
            return numbers * (2 * width / (bus * 1e3) + 7 * width / 20e3)
        rate = self.cluster.gpu.bandwidth_gb_s * 1e3
        moved = 7 if strategy.schedule.flushes else 8
        return numbers * moved * width * OPTIMIZER_PASSES.value / rate * self.factors.other

    def _send_us(self) -> float:
        layers = self.work.layers
        ranks = self.strategy.tensor * self.strategy.data * self.strategy.context
        near = ranks * 2 <= self.cluster.gpus_per_node
        sent = layers.block.input_bytes
        if layers.chain and self.strategy.stage_blocks:
            behind = range(1, self.strategy.pipeline)
            sent = max(stage_parts(layers, self.strategy, stage)[0].input_bytes for stage in behind)
        return send_us(self.fabric, sent, same_node=near) * self.factors.link

    def pipeline_us(
        self, loads: Sequence[_Load], exchange_us: float, optimizer_us: float, *, exact: bool
    ) -> float:
        """The duration of the step with its exchange of gradients and its update."""
        if exact:
            return step_us(simulate(self.graph(loads, exchange_us, optimizer_us)))
        return pipeline_bound_us(
            self.strategy.schedule,
            [load.time for load in loads],
            self.strategy.accumulation,
            self.strategy.chunks,
            self._send_us(),
            exchange_us + optimizer_us,
        )

    def graph(self, loads: Sequence[_Load], exchange_us: float, optimizer_us: float) -> Graph:
        """The schedule of the stages."""
        strategy = self.strategy
        order = orders(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.chunks)
        return pipeline_graph(
            order,
            [load.time.part(strategy.chunks) for load in loads],
            self._send_us(),
            strategy.chunks,
            exchange_us=exchange_us,
            optimizer_us=optimizer_us,
        )


def streamed(count: int, compute_us: float, communicate_us: float, contention: float) -> float:
    """Time of ``count`` equal blocks on two streams: the next block's communication overlaps a block's computation.

    Computation is slower by ``contention`` while both run. The first communication overlaps nothing.
    """
    slowed = compute_us + contention * min(compute_us, communicate_us)
    return communicate_us + (count - 1) * max(slowed, communicate_us) + compute_us
