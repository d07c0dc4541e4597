"""Peak memory of one rank: parameters, gradients, optimizer state, activations and buffers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from skyline.interval import Interval
from skyline.plan.constant import FIXED_BYTES, FRAGMENTATION
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy

_STATES_FP32 = (4.0, 4.0, 8.0)
_STATES_BF16 = (2.0, 2.0, 4.0)
"""Bytes for each parameter: itself, its gradient, two moments of Adam."""
_WORKING_BYTES = 2.0


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
    def peak_bytes(self) -> float:
        """Allocated memory and the allocator's fragmentation."""
        states = self.parameters + self.gradients + self.optimizer
        return states + (self.activations + self.buffers) * FRAGMENTATION.value + self.fixed

    @property
    def peak(self) -> Interval:
        """The peak with the range of its constants, and a tenth of the activations either way."""
        states = self.parameters + self.gradients + self.optimizer
        moving = self.activations + self.buffers
        return Interval(
            self.peak_bytes,
            states + moving * 0.9 * FRAGMENTATION.low + FIXED_BYTES.low,
            states + moving * 1.1 * FRAGMENTATION.high + FIXED_BYTES.high,
        )


def largest_rank(layers: Layers, strategy: Strategy) -> RankMemory:
    """The memory of the stage with the most: the first keeps more micro-batches, the last has the output layer."""
    ends = {0, strategy.pipeline - 1}
    return max((rank_memory(layers, strategy, stage) for stage in ends), key=lambda one: one.peak_bytes)


def rank_memory(layers: Layers, strategy: Strategy, stage: int = 0) -> RankMemory:
    """The memory of one stage."""
    blocks = ceil(layers.blocks / strategy.pipeline)
    first, last = _ends(layers, strategy, stage)
    ends = first.parameters + last.parameters
    experts = layers.expert_parameters * blocks
    shared = layers.block.parameters * blocks - experts + ends
    states = _STATES_BF16 if strategy.precision is Precision.PURE else _STATES_FP32
    # Experts are replicated only over the ranks that have the same ones.
    weights = [shared, experts]
    ways = [strategy.data * strategy.context, max(1, strategy.data * strategy.context // strategy.expert)]

    def kept(sharded_from: Sharding, size: float) -> float:
        order = list(Sharding)
        sharded = order.index(strategy.sharding) >= order.index(sharded_from)
        return sum(weight * size / (way if sharded else 1) for weight, way in zip(weights, ways, strict=True))

    optimizer = 0.0 if strategy.offload else kept(Sharding.ZERO_1, states[2])
    return RankMemory(
        kept(Sharding.ZERO_3, states[0]),
        # Gradients that are not sent wait for a later step.
        kept(Sharding.ZERO_2, states[1]) * (2 if strategy.sent < 1 else 1),
        optimizer,
        activation_bytes(layers, strategy, blocks, stage),
        _buffers(layers, strategy, blocks)
        + (strategy.weight_versions(stage) - 1) * _WORKING_BYTES * sum(weights),
    )


def _ends(layers: Layers, strategy: Strategy, stage: int) -> tuple[LayerPart, LayerPart]:
    """The first and the last part, as far as the stage has them."""
    return (
        layers.first if stage == 0 else LayerPart(),
        layers.last if stage == strategy.pipeline - 1 else LayerPart(),
    )


def micro_batches_held(strategy: Strategy, stage: int = 0) -> float:
    """Micro-batches whose activations a stage keeps at once."""
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
        # Gradients of weights wait as many slots as the stage is behind the first.
        return min(micro_batches, stages)
    return min(micro_batches, ahead)


def block_saved_bytes(part: LayerPart, recompute: Recompute) -> float:
    """Activations that a block keeps for one micro-batch."""
    if recompute is Recompute.FULL:
        return part.input_bytes
    return part.selective_bytes if recompute is Recompute.SELECTIVE else part.saved_bytes


def activation_bytes(layers: Layers, strategy: Strategy, blocks: int, stage: int = 0) -> float:
    """Activations at the peak: all micro-batches in flight, one block that is recomputed, and the loss."""
    held = micro_batches_held(strategy, stage)
    kept = held * blocks * block_saved_bytes(layers.block, strategy.recompute)
    again = 0.0 if strategy.recompute is Recompute.NONE else layers.block.saved_bytes
    first, last = _ends(layers, strategy, stage)
    return kept + first.saved_bytes * held + max(last.saved_bytes, again)


def _buffers(layers: Layers, strategy: Strategy, blocks: int) -> float:
    mixed = strategy.precision is not Precision.PURE
    if strategy.sharding is Sharding.ZERO_3 and strategy.data * strategy.context > 1:
        if strategy.pipeline > 1:
            # Stages keep gathered parameters and unreduced gradients for all micro-batches of a step.
            return layers.block.parameters * blocks * (_WORKING_BYTES + (4.0 if mixed else 2.0))
        largest = max(layers.block.parameters, layers.first.parameters + layers.last.parameters)
        gathered = _WORKING_BYTES * (2 * layers.block.parameters + largest)
        return gathered + (4.0 if mixed else 2.0) * layers.block.parameters
    # Autocast keeps a copy of the weights in 16 bits.
    return layers.block.parameters * blocks * _WORKING_BYTES if mixed else 0.0
