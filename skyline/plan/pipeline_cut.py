"""The stages of a strategy's pipeline: the cut of blocks or layers with the fastest slowest stage that fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from skyline.plan.cluster import ClusterSpec
from skyline.plan.constant import FIXED_BYTES
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.placement import LayerGraph, StageLimits, place
from skyline.plan.rank_memory import chain_layers, micro_batches_held, stage_parts, stage_sizes
from skyline.plan.stage_cut import cut_blocks
from skyline.plan.step import again_us, block_times
from skyline.plan.strategy import Recompute, Strategy
from skyline.plan.work import Work


def cut(work: Work, strategy: Strategy, cluster: ClusterSpec, usable_bytes: float) -> Strategy:
    """The strategy with the blocks of each stage, and the blocks that must recompute for the stage to fit.

    It remains unchanged without a pipeline, with several chunks (which are equal), and if no cut of equal
    blocks fits. If no cut of different layers fits, they are spread evenly by number.
    """
    if strategy.pipeline == 1 or strategy.chunks > 1:
        return strategy
    if work.layers.chain:
        return _cut_chain(work, strategy, usable_bytes)
    times, sizes = block_times(work, strategy, cluster), stage_sizes(work.layers, strategy)
    found = cut_blocks(work.layers.blocks, times, sizes, usable_bytes)
    return strategy if found is None else _with(strategy, found.blocks, found.recomputed)


def _cut_chain(work: Work, strategy: Strategy, usable_bytes: float) -> Strategy:
    layers = [
        replace(layer, time_us=time.total_us, again_us=again_us(time, strategy.recompute))
        for layer, time in zip(chain_layers(work.layers, strategy), work.chain, strict=True)
    ]
    limits = StageLimits(
        usable_bytes - FIXED_BYTES.value,
        tuple(micro_batches_held(strategy, stage) for stage in range(strategy.pipeline)),
        strategy.recompute is not Recompute.NONE,
    )
    found = place(LayerGraph.chain(layers), limits)
    if found is None:
        ends = [len(layers) * stage // strategy.pipeline for stage in range(strategy.pipeline + 1)]
        evenly = tuple(end - start for start, end in pairwise(ends))
        return _with(strategy, evenly, evenly)
    blocks = tuple(len(stage) for stage in found.stages)
    again = zip(blocks, found.recomputed, strict=True)
    return _with(strategy, blocks, tuple(count if recomputed else 0 for count, recomputed in again))


def _with(strategy: Strategy, blocks: tuple[int, ...], recomputed: tuple[int, ...]) -> Strategy:
    if strategy.recompute is Recompute.NONE or not any(recomputed):
        return replace(strategy, stage_blocks=blocks, recompute=Recompute.NONE)
    return replace(strategy, stage_blocks=blocks, stage_recomputed=() if recomputed == blocks else recomputed)


def stage_layers(layers: Layers, strategy: Strategy) -> tuple[str, ...]:
    """The layers of each stage in words, such as ``input, blocks 0-7``. Empty without a cut."""
    found: list[str] = []
    start = 0
    for stage, count in enumerate(strategy.stage_blocks):
        parts = [*_named(layers, strategy, stage, start, count)]
        start += count
        again = strategy.stage_recomputed[stage] if strategy.stage_recomputed else 0
        found.append(", ".join(parts) + (f" ({again} of {count} recompute)" if again else ""))
    return tuple(found)


def _named(layers: Layers, strategy: Strategy, stage: int, start: int, count: int) -> list[str]:
    if layers.chain:
        names = [part.name for part in stage_parts(layers, strategy, stage)]
        return [names[0] if count == 1 else f"{names[0]} to {names[-1]}"]
    blocks = f"block {start}" if count == 1 else f"blocks {start}-{start + count - 1}"
    first, last = stage == 0, stage == strategy.pipeline - 1
    return [
        *(["input"] if first and _works(layers.first) else []),
        *([blocks] if count else []),
        *(["output"] if last and _works(layers.last) else []),
    ]


def _works(part: LayerPart) -> bool:
    return bool(part.forward or part.parameters)
