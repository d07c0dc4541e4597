"""How much later each task could start without the whole taking longer."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

import numpy as np

from skyline.compiled import loop
from skyline.graph.column import Times
from skyline.simulate.timeline import Timeline


def slack_us(timeline: Timeline) -> Times:
    """µs from the start of each task to the latest start that leaves the makespan as it is; 0 on a critical path.

    One task alone may be late by its slack; tasks that follow one another share theirs. The order on the lanes
    stays as it was, and so does what tasks on shared resources took from one another.
    """
    structure = timeline.graph.structure
    starts, ends, freed = timeline.starts, timeline.ends, timeline.freed
    latest = timeline.makespan_us - (freed - starts)
    _pass_back(
        len(starts) + len(structure.incoming_source),
        timeline.order,
        timeline.before,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        ends - starts,
        freed - starts,
        latest,
    )
    return np.maximum(0.0, latest - starts)


@loop("iiiifbff", writes="f")
def _pass_back(
    order: Sequence[int],
    before: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    took: Sequence[float],
    occupied: Sequence[float],
    latest: MutableSequence[float],
) -> int:
    """Hands each task's latest start on to all that it waited for, the last task first."""
    for position in range(len(order) - 1, -1, -1):
        index = order[position]
        start = latest[index]
        previous = before[index]
        if previous >= 0:
            latest[previous] = min(latest[previous], start - occupied[previous])
        for place in range(incoming_offsets[index], incoming_offsets[index + 1]):
            source = incoming_source[place]
            needed = start - incoming_lag[place]
            if not incoming_from_start[place]:
                needed -= took[source]
            latest[source] = min(latest[source], needed)
    return 0
