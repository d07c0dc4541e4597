"""The time of an optimizer step of one strategy: computation, exposed communication, pipeline and update."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt

from skyline.graph.graph import Graph
from skyline.interval import Interval
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
    EXPOSED_LATENCY,
    OPTIMIZER_PASSES,
    SELECTION_PASSES,
    STRAGGLING,
)
from skyline.plan.kernel_time import KernelTimes, PartTime, WorkTime
from skyline.plan.layers import Layers
from skyline.plan.schedule import StageTime, orders, pipeline_bound_us, pipeline_graph, step_us
from skyline.plan.strategy import Precision, Recompute, Sharding, Strategy
from skyline.predict.gpus import gpu_named
from skyline.simulate.engine import simulate

_SPREAD = {"product": 0.12, "attention": 0.25, "other": 0.3, "link": 0.35}
"""Relative error of each group of times; errors of groups are independent."""


@dataclass(frozen=True, slots=True)
class StepFactors:
    """Multiples of the times of each group, to find how the step depends on them."""

    product: float = 1.0
    attention: float = 1.0
    other: float = 1.0
    link: float = 1.0
    contention: float = CONTENTION.value
    latency: float = EXPOSED_LATENCY.value

    def compute(self, time: WorkTime) -> float:
        """The time of a part with these multiples, in µs."""
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
        """The step."""
        return self.compute_us + self.exposed_us + self.bubble_us + self.optimizer_us


@dataclass(frozen=True, slots=True)
class Work:
    """Layers of one rank with their times."""

    layers: Layers
    block: PartTime
    first: PartTime
    last: PartTime
    single_device: bool = False
    """True if the times are those of one device alone, without the spread of several ranks."""

    @property
    def total_us(self) -> float:
        """The forward and backward pass of one micro-batch."""
        return self.block.total_us * self.layers.blocks + self.first.total_us + self.last.total_us


def work_of(layers: Layers, kernels: KernelTimes, precision: Precision) -> Work:
    """The times of a rank's layers; those of a script add up to the pass that was predicted for it."""
    work = Work(
        layers,
        kernels.part(layers.block, precision),
        kernels.part(layers.first, precision),
        # The output layer stays in bfloat16, as do embeddings.
        kernels.part(layers.last, Precision.MIXED if precision is Precision.FLOAT8 else precision),
        layers.single_device,
    )
    factor = _as_predicted(work, kernels, precision)
    return replace(
        work,
        block=work.block.scaled(factor),
        first=work.first.scaled(factor),
        last=work.last.scaled(factor),
    )


def _as_predicted(work: Work, kernels: KernelTimes, precision: Precision) -> float:
    """The factor to a pass that was predicted as a whole: operators fuse, and kernels wait for their launches.

    On another GPU kernels keep their share of the sum of operators, and the host's own time stays.
    """
    layers, total_us, known = work.layers, work.total_us, work.layers.known
    if known is None or not total_us:
        return 1.0
    there_us = total_us
    if known.gpu != kernels.gpu.name:
        there = KernelTimes(gpu_named(known.gpu), kernels.predictor)
        there_us = work_of(replace(layers, known=None), there, precision).total_us
    host_us = max(0.0, known.pass_us - known.kernels_us)
    return known.kernels_us / there_us + host_us / total_us


def step_range(
    work: Work, strategy: Strategy, cluster: ClusterSpec, *, exact: bool = True
) -> tuple[StepTime, Interval]:
    """The step, and its range in µs: each group of times in turn at its ends, added in quadrature."""
    step = step_time(work, strategy, cluster, exact=exact)
    below = above = 0.0
    for group, spread in _SPREAD.items():
        high = step_time(work, strategy, cluster, StepFactors(**{group: 1 + spread}), exact=False)
        middle = step_time(work, strategy, cluster, exact=False)
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
    """The step on the slowest stage. ``exact`` simulates a pipeline, else a closed form stands for it."""
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), factors or StepFactors())
    optimizer = stage.optimizer_us()
    forward, backward = stage.micro_batch()
    compute = stage.compute_us() * strategy.accumulation
    if strategy.pipeline == 1:
        busy = forward + backward
        sync = stage.gradient_us(busy_us=stage.blocks * stage.block_backward_us)
        moving = busy * strategy.accumulation + sync
        if work.single_device and strategy.ranks > 1:
            moving += compute * STRAGGLING.value
        return StepTime(compute, max(0.0, moving - compute), 0.0, optimizer)
    ideal = (forward + backward) * strategy.accumulation
    sync = stage.gradient_us(busy_us=0.0)
    step = stage.pipeline_us(forward, backward, sync, optimizer, exact=exact)
    bubble = max(0.0, step - ideal - sync - optimizer)
    return StepTime(compute, max(0.0, ideal - compute) + sync, bubble, optimizer)


def pipeline_timeline(work: Work, strategy: Strategy, cluster: ClusterSpec) -> Graph:
    """The stages of a pipeline as a graph: one step, or without flushes those that fill the pipeline and as many more.

    One rank stands for the equal ranks of its stage.
    """
    stage = _Stage(work, strategy, cluster, Fabric.of(cluster), StepFactors())
    return stage.graph(
        *stage.micro_batch(),
        exchange_us=stage.gradient_us(busy_us=0.0),
        optimizer_us=stage.optimizer_us(),
    )


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
    """True if each micro-batch scatters its gradients, not the last alone."""


def stream_times(work: Work, strategy: Strategy, cluster: ClusterSpec) -> StreamTimes:
    """The times of a timeline of one rank."""
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
class _Stage:
    work: Work
    strategy: Strategy
    cluster: ClusterSpec
    fabric: Fabric
    factors: StepFactors

    @property
    def blocks(self) -> int:
        return ceil(self.work.layers.blocks / self.strategy.pipeline)

    @property
    def _recomputed_us(self) -> float:
        """Computation that the backward pass of a block repeats."""
        forward = self.work.block.forward
        if self.strategy.recompute is Recompute.FULL:
            return self.factors.compute(self.work.block.again)
        if self.strategy.recompute is Recompute.SELECTIVE:
            return self.factors.compute(WorkTime(forward.product_us / 2, 0.0, forward.other_us))
        return 0.0

    def ends_us(self) -> tuple[float, float]:
        """Forward and backward time of the first and last part; in a pipeline, what the slowest stage has of them."""
        first, last, compute = self.work.first, self.work.last, self.factors.compute
        if self.strategy.pipeline == 1:
            return (
                compute(first.forward) + compute(last.forward),
                compute(first.backward) + compute(last.backward),
            )
        block = compute(self.work.block.forward) + compute(self.work.block.backward) + self._recomputed_us
        load = _slowest(
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
        """The backward time of one block, under which gradients of the blocks behind it are reduced."""
        return self.factors.compute(self.work.block.backward)

    def compute_us(self) -> float:
        """Computation of one micro-batch on the stage."""
        block = self.factors.compute(self.work.block.forward) + self.factors.compute(self.work.block.backward)
        return self.blocks * (block + self._recomputed_us) + sum(self.ends_us())

    def block_us(self) -> tuple[float, float]:
        """Forward and backward time of a block with the communication inside it."""
        inside = self._tensor_us() + self._expert_us()
        context = self._context_us()
        forward = self.factors.compute(self.work.block.forward)
        backward = self.factors.compute(self.work.block.backward) + self._recomputed_us
        repeats = 2 if self.strategy.recompute is Recompute.FULL else 1
        around = (1 + repeats) * context
        slowed = self.factors.contention
        return (
            max(forward + slowed * min(forward, context), context) + inside,
            max(backward + slowed * min(backward, around), around) + inside * repeats,
        )

    def micro_batch(self) -> tuple[float, float]:
        """Forward and backward time of one micro-batch with the communication that it waits for."""
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
        """The wait for the slowest rank of a collective, which no prefetch hides."""
        strategy = self.strategy
        if strategy.sharding is not Sharding.ZERO_3 or strategy.pipeline > 1:
            return 0.0
        group = group_of(self.cluster, strategy.data * strategy.context, strategy.tensor)
        return self.fabric.ring_latency_us(group) * self.factors.latency * self.factors.link

    def sharded_us(self) -> tuple[float, float]:
        """Gathering the parameters of a block and scattering its gradients, for each micro-batch."""
        strategy = self.strategy
        if strategy.sharding is not Sharding.ZERO_3 or strategy.pipeline > 1:
            return 0.0, 0.0
        layers = self.work.layers
        group = group_of(self.cluster, strategy.data * strategy.context, strategy.tensor)
        numbers = layers.block.parameters - layers.expert_parameters
        experts = group_of(
            self.cluster, max(1, group.size // strategy.expert), strategy.tensor * strategy.expert
        )
        gather = all_gather_us(self.fabric, group, 2 * numbers)
        gather += all_gather_us(self.fabric, experts, 2 * layers.expert_parameters)
        reduce = reduce_scatter_us(self.fabric, group, self._gradient_width * numbers)
        reduce += reduce_scatter_us(self.fabric, experts, self._gradient_width * layers.expert_parameters)
        return gather * self.factors.link, reduce * self.factors.link

    @property
    def _gradient_width(self) -> float:
        return 2.0 if self.strategy.precision is Precision.PURE else 4.0

    def _tensor_us(self) -> float:
        """Two reductions of the activation in each direction, as gathers and scatters of parts of the sequence."""
        ways = self.strategy.tensor
        if ways == 1:
            return 0.0
        time = 2 * all_reduce_us(self.fabric, group_of(self.cluster, ways, 1), self.work.layers.tensor_bytes)
        hidden = ASYNC_TENSOR_HIDDEN.value if self.strategy.async_tensor else 0.0
        return time * (1 - hidden) * self.factors.link

    def _context_us(self) -> float:
        """Keys and values around the ring of context parallelism, under attention."""
        ways = self.strategy.context
        if ways == 1:
            return 0.0
        near = ways * self.strategy.tensor <= self.cluster.gpus_per_node
        hop = send_us(self.fabric, self.work.layers.context_bytes, same_node=near)
        return (ways - 1) * hop * self.factors.link

    def _expert_us(self) -> float:
        """Tokens to the experts and back."""
        if self.strategy.expert == 1:
            return 0.0
        group = group_of(self.cluster, self.strategy.expert, self.strategy.tensor)
        return 2 * all_to_all_us(self.fabric, group, self.work.layers.expert_bytes) * self.factors.link

    def gradient_us(self, busy_us: float) -> float:
        """Gradients once a step where blocks do not scatter them; ``busy_us`` of backward pass hides them."""
        strategy = self.strategy
        size = strategy.data * strategy.context
        if size == 1 or (strategy.sharding is Sharding.ZERO_3 and strategy.pipeline == 1):
            return 0.0
        group = group_of(self.cluster, size, strategy.tensor)
        layers = self.work.layers
        ends = (layers.first.parameters + layers.last.parameters) / strategy.pipeline
        numbers = layers.block.parameters * self.blocks + ends
        width = 2.0 if strategy.precision is Precision.PURE else 4.0
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
            after = all_gather_us(self.fabric, group, 2 * numbers)
            last = reduce / max(1, self.blocks)
        reduce, after, last = (one * self.factors.link for one in (reduce, after, last))
        hidden = min(max(0.0, reduce - last), busy_us)
        return reduce - hidden * (1 - self.factors.contention) + after

    def optimizer_us(self) -> float:
        """The update of the rank's share: Adam reads four tensors and writes three.

        Without flushes it also writes predicted weights, those at the time of the gradient (Kosson et al. 2021).
        """
        strategy, layers = self.strategy, self.work.layers
        ends = (layers.first.parameters + layers.last.parameters) / strategy.pipeline
        numbers = layers.block.parameters * self.blocks + ends
        if strategy.sharding is not Sharding.NONE:
            numbers /= strategy.data * strategy.context
        width = 2 if strategy.precision is Precision.PURE else 4
        if strategy.offload:
            # Gradients to the host and parameters back; the update there is bound by the host's memory.
            bus = (self.cluster.gpu.pcie_gb_s or 32.0) / 2
            return numbers * (2 * width / (bus * 1e3) + 7 * width / 20e3)
        rate = self.cluster.gpu.bandwidth_gb_s * 1e3
        moved = 7 if strategy.schedule.flushes else 8
        return numbers * moved * width * OPTIMIZER_PASSES.value / rate * self.factors.other

    def _send_us(self) -> float:
        layers = self.work.layers
        ranks = self.strategy.tensor * self.strategy.data * self.strategy.context
        near = ranks * 2 <= self.cluster.gpus_per_node
        return send_us(self.fabric, layers.block.input_bytes, same_node=near) * self.factors.link

    def _chunk(self, forward: float, backward: float, chunks: int) -> StageTime:
        weights = self.factors.compute(self.work.block.backward) * self.blocks / 2
        return StageTime(forward / chunks, backward / chunks, weights / chunks)

    def pipeline_us(
        self, forward: float, backward: float, exchange_us: float, optimizer_us: float, *, exact: bool
    ) -> float:
        """The step with its exchange of gradients and its update."""
        if exact:
            graph = self.graph(forward, backward, exchange_us=exchange_us, optimizer_us=optimizer_us)
            return step_us(simulate(graph))
        strategy = self.strategy
        time = self._chunk(forward, backward, 1)
        return pipeline_bound_us(
            strategy.schedule,
            time,
            strategy.pipeline,
            strategy.accumulation,
            strategy.chunks,
            self._send_us(),
            exchange_us + optimizer_us,
        )

    def graph(
        self, forward: float, backward: float, *, exchange_us: float = 0.0, optimizer_us: float = 0.0
    ) -> Graph:
        """The stages with equal times."""
        strategy = self.strategy
        order = orders(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.chunks)
        times = [self._chunk(forward, backward, strategy.chunks)] * strategy.pipeline
        return pipeline_graph(
            order,
            times,
            self._send_us(),
            strategy.chunks,
            exchange_us=exchange_us,
            optimizer_us=optimizer_us,
        )


def streamed(count: int, compute_us: float, communicate_us: float, contention: float) -> float:
    """``count`` equal blocks on two streams: the communication of the next block runs under the computation of one.

    Computation is slower by ``contention`` while both run. The first communication has nothing to hide under.
    """
    slowed = compute_us + contention * min(compute_us, communicate_us)
    return communicate_us + (count - 1) * max(slowed, communicate_us) + compute_us


@lru_cache(maxsize=4096)
def _slowest(blocks: int, stages: int, block_us: float, first_us: float, last_us: float) -> float:
    return slowest_stage_us(blocks, stages, block_us, first_us, last_us)


def slowest_stage_us(blocks: int, stages: int, block_us: float, first_us: float, last_us: float) -> float:
    """The load of the slowest stage when whole blocks are spread best around the first and the last part."""
    ends = [first_us, *([0.0] * (stages - 2)), last_us]
    loads = sorted({end + count * block_us for end in ends for count in range(blocks + 1)})
    for load in loads:
        room = sum(int((load - end) / block_us + 1e-9) for end in ends if load >= end)
        if room >= blocks and load >= max(ends):
            return load
    return loads[-1]
