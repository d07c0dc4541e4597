"""Peak memory of one rank: parameters, gradients, optimizer state, activations and buffers."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.constant import FIXED_BYTES, FRAGMENTATION
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.placement import GraphLayer
from skyline.plan.stage_cut import Numbers, StageSizes
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy

_STATES_FP32 = (4.0, 4.0, 8.0)
_STATES_BF16 = (2.0, 2.0, 4.0)
"""Bytes for each parameter: the parameter, its gradient, two moments of Adam."""
_NOTHING = LayerPart()
_LEVELS = {sharding: level for level, sharding in enumerate(Sharding)}
"""Levels of sharding. Each level divides more state than the previous one."""
_MANY = 1e9
"""Number of parameters from which the memory per parameter is computed."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of a rank. ``buffers`` are gathered parameters, older versions of weights and unreduced gradients."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float
    fixed: float = FIXED_BYTES.value

    @property
    def state_bytes(self) -> float:
        """The memory that does not depend on micro-batches."""
        return self.parameters + self.gradients + self.optimizer

    @property
    def peak_bytes(self) -> float:
        """Allocated memory plus the allocator's fragmentation."""
        return self.state_bytes + (self.activations + self.buffers) * FRAGMENTATION.value + self.fixed

    @property
    def peak(self) -> Interval:
        """The peak with the range of its constants, and with a tenth of the activations in both directions."""
        moving = self.activations + self.buffers
        return Interval(
            self.peak_bytes,
            self.state_bytes + moving * 0.9 * FRAGMENTATION.low + FIXED_BYTES.low,
            self.state_bytes + moving * 1.1 * FRAGMENTATION.high + FIXED_BYTES.high,
        )


def largest_rank(layers: Layers, strategy: Strategy) -> RankMemory:
    """The memory of the stage with the most. The first keeps more micro-batches, the last has the output layer."""
    stages = {0, strategy.pipeline - 1}
    if layers.chain:
        stages |= {*range(strategy.pipeline)}
    elif strategy.stage_blocks:
        # Among inner stages with the same blocks, the first one keeps the most micro-batches.
        again = strategy.stage_recomputed or strategy.stage_blocks
        loads = list(zip(strategy.stage_blocks, again, strict=True))
        stages |= {loads.index(load, 1) for load in {*loads[1:-1]}}
    return max((rank_memory(layers, strategy, stage) for stage in stages), key=lambda one: one.peak_bytes)


def rank_memory(layers: Layers, strategy: Strategy, stage: int = 0) -> RankMemory:
    """The memory of one stage."""
    if layers.chain and strategy.stage_blocks:
        return _chain_memory(layers, strategy, stage)
    blocks = strategy.blocks_on(stage, layers.blocks)
    return _stage_memory(layers, strategy, stage, blocks, strategy.recomputed_on(stage, layers.blocks))


def stage_parts(layers: Layers, strategy: Strategy, stage: int) -> tuple[LayerPart, ...]:
    """The layers of a stage, in a model of different layers."""
    start = sum(strategy.stage_blocks[:stage])
    return layers.chain[start : start + strategy.stage_blocks[stage]]


def _chain_memory(layers: Layers, strategy: Strategy, stage: int) -> RankMemory:
    parts = stage_parts(layers, strategy, stage)
    states = _states_of(sum(part.parameters for part in parts), strategy, stage)
    recompute, again = Recompute.NONE, 0.0
    if strategy.recomputed_on(stage, len(parts)):
        recompute, again = strategy.recompute, max(part.saved_bytes for part in parts)
    kept = sum(block_saved_bytes(part, recompute) for part in parts)
    return replace(states, activations=micro_batches_held(strategy, stage) * kept + again)


def chain_layers(layers: Layers, strategy: Strategy) -> tuple[GraphLayer, ...]:
    """The memory of different layers for their placement. The number of weight versions is the first stage's."""
    states = _states_of(_MANY, strategy, 0)
    moving = FRAGMENTATION.value
    per_parameter = (states.state_bytes + moving * states.buffers) / _MANY
    return tuple(
        GraphLayer(
            0.0,
            part.parameters * per_parameter,
            moving * part.saved_bytes,
            0.0,
            moving * block_saved_bytes(part, strategy.recompute),
        )
        for part in layers.chain
    )


def _states_of(parameters: float, strategy: Strategy, stage: int) -> RankMemory:
    """The memory of a stage without activations."""
    only = Layers(LayerPart(parameters=parameters), 1, LayerPart(), LayerPart())
    return _stage_memory(only, strategy, stage, 1, 0)


def stage_sizes(layers: Layers, strategy: Strategy) -> StageSizes:
    """The memory of each stage of a pipeline without a cut, as a function of the stage's number of blocks."""
    last = strategy.pipeline - 1
    # The last stage has one version of the weights.
    one, none = (_stage_memory(layers, strategy, last, blocks, 0) for blocks in (1, 0))
    states = one.state_bytes - none.state_bytes
    held, older = _in_flight(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.chunks)
    block = layers.block
    moving = (
        held * block.saved_bytes
        + one.buffers
        - none.buffers
        + older * strategy.precision.width_bytes * block.parameters
    )
    fixed = np.full(strategy.pipeline, FIXED_BYTES.value)
    fixed[0] = _stage_memory(layers, strategy, 0, 0, 0).peak_bytes
    fixed[-1] = none.peak_bytes
    again = np.full(strategy.pipeline, block.saved_bytes)
    again[-1] = max(0.0, block.saved_bytes - layers.last.saved_bytes)
    spared = held * (block.saved_bytes - block_saved_bytes(block, strategy.recompute))
    return StageSizes(
        fixed,
        states + FRAGMENTATION.value * moving,
        FRAGMENTATION.value * spared,
        FRAGMENTATION.value * again,
    )


@lru_cache(maxsize=1024)
def _in_flight(
    schedule: PipelineSchedule, stages: int, micro_batches: int, chunks: int
) -> tuple[Numbers, Numbers]:
    """The micro-batches that each stage keeps, and its older versions of the weights."""
    strategy = Strategy(pipeline=stages, accumulation=micro_batches, schedule=schedule, chunks=chunks)
    held = [float(micro_batches_held(strategy, stage)) for stage in range(stages)]
    return np.array(held), np.array([strategy.weight_versions(stage) - 1.0 for stage in range(stages)])


def _stage_memory(layers: Layers, strategy: Strategy, stage: int, blocks: int, recomputed: int) -> RankMemory:
    first, last = _ends(layers, strategy, stage)
    ends = first.parameters + last.parameters
    experts = layers.expert_parameters * blocks
    shared = layers.block.parameters * blocks - experts + ends
    states = _STATES_BF16 if strategy.precision is Precision.PURE else _STATES_FP32
    # Experts are replicated only over the ranks that have the same experts.
    ways = strategy.data * strategy.context
    weights = shared + experts
    spread = shared / ways + experts / max(1, ways // strategy.expert)
    level = _LEVELS[strategy.sharding]

    def kept(sharded_from: Sharding, size: float) -> float:
        return size * (spread if level >= _LEVELS[sharded_from] else weights)

    optimizer = 0.0 if strategy.offload else kept(Sharding.ZERO_1, states[2])
    return RankMemory(
        kept(Sharding.ZERO_3, states[0]),
        # Gradients that are not sent are kept for a later step.
        kept(Sharding.ZERO_2, states[1]) * (2 if strategy.sent < 1 else 1),
        optimizer,
        activation_bytes(layers, strategy, blocks, stage, recomputed),
        _buffers(layers, strategy, blocks)
        + (strategy.weight_versions(stage) - 1) * strategy.precision.width_bytes * weights,
    )


def _ends(layers: Layers, strategy: Strategy, stage: int) -> tuple[LayerPart, LayerPart]:
    """The first and the last part if the stage has them, else empty parts."""
    return (
        layers.first if stage == 0 else _NOTHING,
        layers.last if stage == strategy.pipeline - 1 else _NOTHING,
    )


def micro_batches_held(strategy: Strategy, stage: int = 0) -> float:
    """Number of micro-batches whose activations a stage keeps at the same time."""
    stages, micro_batches = strategy.pipeline, strategy.accumulation
    if stages == 1:
        return 1
    ahead = stages - stage
    if not strategy.schedule.flushes:
        return ahead
    if strategy.schedule is PipelineSchedule.GPIPE:
        return micro_batches
    if strategy.chunks > 1:
        # Interleaving keeps more of the parts in flight (Narayanan et al. 2021).
        return min(micro_batches, stages + (2 * ahead - 1 - stages) / strategy.chunks)
    if strategy.schedule is PipelineSchedule.ZERO_BUBBLE:
        # Gradients of weights are delayed by the number of slots that the stage is behind the first.
        return min(micro_batches, stages)
    return min(micro_batches, ahead)


def block_saved_bytes(part: LayerPart, recompute: Recompute) -> float:
    """Bytes of activations that a block keeps for one micro-batch."""
    if recompute is Recompute.FULL:
        return part.input_bytes
    return part.selective_bytes if recompute is Recompute.SELECTIVE else part.saved_bytes


def activation_bytes(
    layers: Layers, strategy: Strategy, blocks: int, stage: int = 0, recomputed: int | None = None
) -> float:
    """Activations at the peak: all micro-batches in flight, one block that is recomputed, and the loss.

    ``recomputed`` blocks keep less. By default all blocks do if the strategy recomputes.
    """
    held = micro_batches_held(strategy, stage)
    if recomputed is None:
        recomputed = 0 if strategy.recompute is Recompute.NONE else blocks
    less = block_saved_bytes(layers.block, strategy.recompute)
    kept = held * ((blocks - recomputed) * layers.block.saved_bytes + recomputed * less)
    again = layers.block.saved_bytes if recomputed else 0.0
    first, last = _ends(layers, strategy, stage)
    return kept + first.saved_bytes * held + max(last.saved_bytes, again)


def _buffers(layers: Layers, strategy: Strategy, blocks: int) -> float:
    working, gradient = strategy.precision.width_bytes, strategy.precision.gradient_bytes
    if strategy.sharding is Sharding.ZERO_3 and strategy.data * strategy.context > 1:
        if strategy.pipeline > 1:
            # Stages keep gathered parameters and unreduced gradients for all micro-batches of a step.
            return layers.block.parameters * blocks * (working + gradient)
        largest = max(layers.block.parameters, layers.first.parameters + layers.last.parameters)
        gathered = working * (2 * layers.block.parameters + largest)
        return gathered + gradient * layers.block.parameters
    # Autocast keeps a copy of the weights in 16 bits.
    return layers.block.parameters * blocks * working if strategy.precision.copies_weights else 0.0
