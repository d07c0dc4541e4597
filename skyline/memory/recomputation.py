"""Memory that blocks of the model keep from their forward pass to their backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.memory.peak import live_blocks
from skyline.trace.record import Phase, Trace

_Sizes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KeptByBlock:
    """Memory that one forward pass through a block keeps for the backward pass.

    ``begin``, ``left`` and ``back`` are numbers of allocations: the first in the block's forward pass, the first after
    it, the first in its backward pass. ``kept_bytes`` is live from ``left`` to ``back``, without the block's output.
    ``passing_bytes`` is the maximum rise of the level until the last kept tensor exists.
    """

    path: str
    begin: int
    left: int
    back: int
    kept_bytes: int
    passing_bytes: int


def kept_by_blocks(trace: Trace, paths: Sequence[str], live: _Sizes) -> tuple[KeptByBlock, ...]:
    """The memory that each pass through each block keeps; ``live`` is the level after each allocation."""
    times = np.array([one.time_us for one in trace.allocations])
    found = live_blocks(trace.allocations)
    taken = np.array([block.taken for block in found], np.int64)
    freed = np.array([len(times) if block.freed is None else block.freed for block in found], np.int64)
    sizes = np.array([block.size_bytes for block in found], np.int64)
    kept: list[KeptByBlock] = []
    for path, forward, backward in _passes(trace, paths):
        begin, left = (int(np.searchsorted(times, moment)) for moment in forward)
        back = int(np.searchsorted(times, backward))
        inside = np.flatnonzero((taken >= begin) & (taken < left) & (freed >= left))
        # The last tensor is the block's output: the next block keeps it as its input.
        held = inside[:-1]
        held = held[freed[held] >= back]
        low = live[begin - 1] if begin else live[0]
        # The recomputation ends with the last tensor that the backward pass needs.
        needed = int(taken[held[-1]]) + 1 if len(held) else begin
        passing = float((live[begin:needed] - low).max(initial=0.0))
        kept.append(KeptByBlock(path, begin, left, back, int(sizes[held].sum()), round(passing)))
    return tuple(kept)


def _passes(trace: Trace, paths: Sequence[str]) -> list[tuple[str, tuple[float, float], float]]:
    """For each forward pass through each block: its begin, its end, and the begin of the backward pass."""
    last = trace.iterations[-1]
    below = {path: f"{path}." for path in paths}
    owner = [
        next((path for path, prefix in below.items() if module == path or module.startswith(prefix)), "")
        for module in trace.modules
    ]
    passes: list[tuple[str, tuple[float, float], float]] = []
    under_way: dict[str, tuple[float, float]] = {}
    for record in sorted(trace.records, key=lambda record: record.start_us):
        if not last.start_us <= record.start_us < last.end_us or record.module < 0:
            continue
        path = owner[record.module]
        if not path:
            continue
        if record.phase is Phase.FORWARD:
            begun = under_way.get(path, (record.start_us, 0.0))[0]
            under_way[path] = (begun, record.end_us)
        elif record.phase is Phase.BACKWARD and path in under_way:
            passes.append((path, under_way.pop(path), record.start_us))
    return passes
