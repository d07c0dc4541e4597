"""The cut of equal blocks between two ends into stages, in closed form: blocks of each stage, and which recompute.

Time and memory of a stage grow with its number of blocks. For a given bound on the slowest stage, the number
of blocks of each stage is therefore independent of the other stages. The least bound that places all blocks
is one of the times.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from skyline.lazy_dataclass import dataclass

Numbers = npt.NDArray[np.float64]
_CLOSE = 1e-9
"""Relative difference below which times count as equal, because sums in another order round differently."""
_BYTE, _MANY = 1.0, 1e9
"""Parts of a model without parameters and activations always fit."""


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Times in µs of both passes of a micro-batch: one block, the extra time to recompute it, and both ends."""

    block_us: float
    again_us: float
    first_us: float
    last_us: float


@dataclass(frozen=True, slots=True, eq=False)
class StageSizes:
    """Memory in bytes for each stage: without blocks, of a block, and the saving and the need of recomputation.

    ``spared_bytes`` is the amount that a block saves if it recomputes. A stage with any such block needs
    ``again_bytes`` once.
    """

    fixed_bytes: Numbers
    block_bytes: Numbers
    spared_bytes: Numbers
    again_bytes: Numbers


@dataclass(frozen=True, slots=True)
class StageCut:
    """The number of blocks of each stage, and the number of them that recompute."""

    blocks: tuple[int, ...]
    recomputed: tuple[int, ...]


def cut_blocks(blocks: int, times: BlockTimes, sizes: StageSizes, room_bytes: float) -> StageCut | None:
    """The cut with the fastest slowest stage and the least recomputation that lets it fit. None if none fits."""
    stages = len(sizes.fixed_bytes)
    plain = _fastest(blocks, stages, times.block_us, times.first_us, times.last_us)
    if bool(np.all(sizes.fixed_bytes + sizes.block_bytes * plain <= room_bytes)):
        return StageCut(tuple(plain), (0,) * stages)
    if _most(sizes, room_bytes).sum() < blocks:
        return None
    counts = np.arange(blocks + 1, dtype=np.float64)
    held = sizes.fixed_bytes[:, None] + sizes.block_bytes[:, None] * counts
    recomputed = _recomputed(held - room_bytes, sizes, counts)
    time_us = _ends_us(times, stages)[:, None] + times.block_us * counts + times.again_us * recomputed
    time_us[recomputed > counts] = np.inf
    chosen = _within_least(time_us, _least(blocks, stages, times))
    if chosen is None:
        return None
    again = recomputed[np.arange(stages), chosen]
    return StageCut(tuple(int(one) for one in chosen), tuple(int(one) for one in again))


def slowest_stage_us(blocks: int, stages: int, block_us: float, first_us: float, last_us: float) -> float:
    """The time of the slowest stage if whole blocks are spread best around the first and the last part."""
    counts = _fastest(blocks, stages, block_us, first_us, last_us)
    times = BlockTimes(block_us, 0.0, first_us, last_us)
    return float(np.max(_ends_us(times, stages) + block_us * np.asarray(counts)))


@lru_cache(maxsize=4096)
def _fastest(blocks: int, stages: int, block_us: float, first_us: float, last_us: float) -> tuple[int, ...]:
    """The fastest cut, regardless of memory."""
    times = BlockTimes(block_us, 0.0, first_us, last_us)
    time_us = _ends_us(times, stages)[:, None] + block_us * np.arange(blocks + 1, dtype=np.float64)
    chosen = _within_least(time_us, _least(blocks, stages, times))
    assert chosen is not None
    return tuple(int(one) for one in chosen)


def _ends_us(times: BlockTimes, stages: int) -> Numbers:
    ends = np.zeros(stages)
    ends[0] += times.first_us
    ends[-1] += times.last_us
    return ends


def _least(blocks: int, stages: int, times: BlockTimes) -> npt.NDArray[np.int64]:
    """The least number of blocks of each stage: one, or none for a stage with an end."""
    least = np.full(stages, int(blocks >= stages))
    least[0] = least[0] and not times.first_us
    least[-1] = least[-1] and not times.last_us
    return least


def _most(sizes: StageSizes, room_bytes: float) -> npt.NDArray[np.int64]:
    """The largest number of blocks that fits each stage, with as much recomputation as possible."""
    room = room_bytes - sizes.fixed_bytes
    kept = room / np.maximum(sizes.block_bytes, _BYTE)
    every = (room - sizes.again_bytes) / np.maximum(sizes.block_bytes - sizes.spared_bytes, _BYTE)
    most = np.where(sizes.spared_bytes > 0, np.maximum(kept, every), kept)
    return np.floor(np.clip(most, 0, _MANY)).astype(np.int64)


def _recomputed(over_bytes: Numbers, sizes: StageSizes, counts: Numbers) -> Numbers:
    """Number of blocks that must recompute for each number of blocks to fit each stage; above it if nothing fits."""
    spared = sizes.spared_bytes[:, None]
    needed = np.ceil((over_bytes + sizes.again_bytes[:, None]) / np.where(spared > 0, spared, 1.0))
    return np.where(over_bytes <= 0, 0.0, np.where(spared > 0, needed, counts + 1))


def _within_least(time_us: Numbers, least: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The blocks of each stage within the least bound that places all blocks. ``time_us`` has a row for each stage.

    The times of a row increase with the number of blocks, from 0 to all.
    """
    stages, blocks = len(time_us), len(time_us[0]) - 1
    bound = float(np.max(time_us[np.arange(stages), least]))
    left = blocks - int(least.sum())
    if left:
        # Each further time within the bound allows one more block.
        further = time_us[np.arange(blocks + 1) > least[:, None]]
        bound = max(bound, float(np.partition(further, left - 1)[left - 1]))
    if not np.isfinite(bound):
        return None
    within = time_us <= bound * (1 + _CLOSE)
    chosen = np.maximum(least, np.count_nonzero(within, axis=1) - 1)
    rows = np.arange(stages)
    for _ in range(int(chosen.sum()) - blocks):
        # Among equally slow stages, the first one loses a block: it keeps the most micro-batches.
        taken = np.where(chosen > least, time_us[rows, chosen], -1.0)
        chosen[int(np.argmax(taken))] -= 1
    return chosen
