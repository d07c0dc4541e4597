"""Live tensor memory over the recorded iteration, by owner."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Phase, Trace

MOST_POINTS = 200


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """The memory level from one moment of the iteration; the owners sum to ``live_bytes``."""

    time_ms: float
    live_bytes: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    other: int


def memory_timeline(
    end: MemoryFact, trace: Trace, iteration_ms: float, most: int = MOST_POINTS
) -> tuple[MemoryPoint, ...]:
    """The levels of the last recorded iteration, scaled to ``iteration_ms``; at most ``most`` points.

    An omitted point is never higher than its neighbours. Owners are distinguished as at the peak: gradients are blocks
    of the backward pass that outlive the iteration, and older ones until they are freed; activations are all other
    memory of the forward and backward pass.
    """
    allocations = trace.allocations
    if not allocations or not trace.iterations:
        return ()
    mark = trace.iterations[-1]
    scale = iteration_ms / max(1e-9, mark.end_us - mark.start_us)
    blocks = {block.taken: block for block in live_blocks(allocations)}
    taken_by = {block.freed: block.taken for block in blocks.values() if block.freed is not None}
    kept = {taken for taken, b in blocks.items() if b.freed is None and b.phase is Phase.BACKWARD}
    level = end.total_bytes - sum(allocation.size_bytes for allocation in allocations)
    older = sum(-a.size_bytes for i, a in enumerate(allocations) if a.size_bytes < 0 and i not in taken_by)
    new = sum(blocks[taken].size_bytes for taken in kept)
    gradients = max(0, end.gradient_bytes - new) + min(older, end.gradient_bytes, new)
    activations = 0
    points = [_point(0.0, level, gradients, activations, end)]
    for index, allocation in enumerate(allocations):
        size = allocation.size_bytes
        level += size
        owner = index if size > 0 else taken_by.get(index)
        if owner is None:
            gradients = max(0, gradients + size)
        elif owner in kept:
            gradients += size
        elif blocks[owner].phase in (Phase.FORWARD, Phase.BACKWARD):
            activations = max(0, activations + size)
        points.append(
            _point((allocation.time_us - mark.start_us) * scale, level, gradients, activations, end)
        )
    return _thinned(points, most)


def _point(time_ms: float, level: int, gradients: int, activations: int, end: MemoryFact) -> MemoryPoint:
    """Owners by the certainty of their sizes, each limited to the remainder of the level."""
    rest = max(0, level)
    parameters = min(end.parameter_bytes, rest)
    optimizer = min(end.optimizer_bytes, rest - parameters)
    gradients = min(gradients, rest - parameters - optimizer)
    activations = min(activations, rest - parameters - optimizer - gradients)
    other = rest - parameters - optimizer - gradients - activations
    return MemoryPoint(time_ms, rest, parameters, gradients, optimizer, activations, other)


def _thinned(points: list[MemoryPoint], most: int) -> tuple[MemoryPoint, ...]:
    """The highest point of each of several equal intervals, and the first and the last point."""
    if len(points) <= most:
        return tuple(points)
    stretches = most - 2
    inner = points[1:-1]
    chosen: list[MemoryPoint] = []
    for number in range(stretches):
        stretch = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        if stretch:
            chosen.append(max(stretch, key=lambda point: point.live_bytes))
    return (points[0], *chosen, points[-1])
