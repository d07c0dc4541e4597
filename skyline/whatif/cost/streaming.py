"""The gain of the passes by a step that moves less memory: caches hold more of what they read next."""

from __future__ import annotations

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.trace.record import Phase
from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.subject import Subject

US_PER_MB = Interval(2.0, 0.5, 4.5)
"""The gain of forward and backward pass together for each megabyte that the step between them moves less, on a CPU:
perceptrons and tables of embeddings of 4 to 17 million parameters (``benchmarks/optimizer_streaming.py``)."""
STREAMS_FROM_BYTES = 32e6
"""Parameters, gradients and state of this size and more pass through the caches; the passes of smaller models gained
nothing."""
_MOST_GAINED = 0.1
"""Of the passes: the most that was seen."""
NEAR = Constant(
    0.35, 0.2, 1.0,
    "benchmarks/softmax_parts.py: a number of an update in the last-level cache over one in memory",
    machine=EPYC,
)  # fmt: skip
_CACHE_BYTES = Constant.at(32e6, "an assumption where the last-level cache is not known")


def relieved(baseline: Subject, graph: Graph, less_bytes: float, *, end: str = "value") -> Graph:
    """The graph with passes that gain by a step that moves so many bytes less, or lose where it moves more.

    ``end`` says which end of what is known: ``value``, ``low`` for the least gain, or ``high`` for the most.
    """
    if baseline.on_gpu or held_bytes(baseline) < STREAMS_FROM_BYTES or not less_bytes:
        return graph
    passes = select(graph, phase=(Phase.FORWARD, Phase.BACKWARD), kind=TaskKind.CPU, lane=baseline.lane)
    passes_us = float(graph.durations[passes].sum()) / baseline.steps
    if passes_us <= 0:
        return graph
    gained = getattr(US_PER_MB, end) * less_bytes / 1e6 / passes_us
    return scale(graph, passes, 1 - min(_MOST_GAINED, max(-_MOST_GAINED, gained)))


def with_nearer_update(baseline: Subject, graph: Graph, moving: Indices, less: float, near: float) -> Graph:
    """The graph with an update of so many parameters ``less``, more of whose bytes the last-level cache holds.

    ``moving`` are the operators on the parameters that become fewer. The passes used parameters and gradients last:
    what the cache holds of them takes ``near`` as long as the rest. So does Python between the operators, whose data
    the update drives out.
    """
    held, parameters = held_bytes(baseline), sum(one.parameter_count for one in baseline.script.optimizers)
    left = held * (1 - less / parameters) if parameters else 0.0
    if baseline.on_gpu or not 0 < left < held:
        return graph
    cache = float(baseline.script.environment.cache_bytes) or _CACHE_BYTES.value
    now, then = (1 - (1 - near) * min(1.0, cache / size_bytes) for size_bytes in (held, left))
    gaps = graph.gaps.copy()
    gaps[select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.CPU, lane=baseline.lane)] *= then / now
    return scale(graph, moving, then / now).with_times(gaps=gaps)


def held_bytes(baseline: Subject) -> float:
    """Bytes that a step goes through: parameters, gradients and the optimizer's state."""
    peak = baseline.peak
    return float(peak.parameters + peak.gradients + peak.optimizer)
