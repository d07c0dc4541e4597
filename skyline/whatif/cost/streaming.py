"""The speed-up of the passes if the optimizer step moves less memory: caches keep more of the data they read next."""

from __future__ import annotations

from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.trace.record import Phase
from skyline.whatif.subject import Subject

US_PER_MB = Interval(2.0, 0.5, 4.5)
"""The time that forward and backward pass together gain, in µs for each megabyte less that the step between
them moves, on a CPU. Measured with perceptrons and embedding tables of 4 to 17 million parameters
(``benchmarks/optimizer_streaming.py``)."""
STREAMS_FROM_BYTES = 32e6
"""Parameters, gradients and state of this size or more do not fit into the caches; the passes of smaller
models gained nothing."""
_MOST_GAINED = 0.1
"""The largest share of the passes' time that was gained in measurements."""


def relieved(baseline: Subject, graph: Graph, less_bytes: float, *, end: str = "value") -> Graph:
    """The graph with passes sped up by a step that moves ``less_bytes`` less, or slowed if it moves more.

    ``end`` is the end of the gain's range to use: ``value``, ``low`` for the least gain, or ``high`` for the
    most.
    """
    if baseline.on_gpu or held_bytes(baseline) < STREAMS_FROM_BYTES or not less_bytes:
        return graph
    passes = select(graph, phase=(Phase.FORWARD, Phase.BACKWARD), kind=TaskKind.CPU, lane=baseline.lane)
    passes_us = float(graph.durations[passes].sum()) / baseline.steps
    if passes_us <= 0:
        return graph
    gained = getattr(US_PER_MB, end) * less_bytes / 1e6 / passes_us
    return scale(graph, passes, 1 - min(_MOST_GAINED, max(-_MOST_GAINED, gained)))


def held_bytes(baseline: Subject) -> float:
    """Bytes that an optimizer step accesses: parameters, gradients and the optimizer's state."""
    peak = baseline.peak
    return float(peak.parameters + peak.gradients + peak.optimizer)
