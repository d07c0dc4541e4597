"""The part of an iteration that does not grow with the batch: Python, and the calls of operators."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Codes, Times
from skyline.graph.graph import Graph, scale
from skyline.graph.task import KIND, ON_GPU, PARTS, PHASE, Part, TaskKind, parts_of
from skyline.trace.record import Phase
from skyline.whatif.calibration import ROUNDING, simulated_ms
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.subject import Subject

_STANDING = (Part.BACKWARD, Part.REST)
"""Loading works on each sample by itself, Python and all, and the optimizer's step does not grow in any case."""
_PER_WEIGHT = (PHASE[Phase.OPTIMIZER], PHASE[Phase.COMMUNICATION])
"""The update and the exchange of gradients do as much whatever the batch."""
_HALVINGS = 20
_MOST_OF_A_TASK = 0.5
_LEAST_SEEN = 0.7
_MOST_APART = 1.5
"""So far the curve and what was tried may be apart in what a part takes; beyond it is another computation."""


def grown(
    graph: Graph,
    lane: str,
    parts: Codes,
    factors: Times,
    larger: float,
    standing: Times | None = None,
    tried: Times | None = None,
) -> Graph:
    """The lane's tasks in a batch ``larger`` times as large, in which each part takes ``factors`` times as long.

    ``parts`` gives each task's part, as a code; ``standing`` which share of each task beyond its call is known not to
    grow, as the clearing of a table of gradients. A line through what a part takes at both sizes shows how much of it
    does not grow. That is taken to be Python between the operators, the operators' calls and what is known to stand,
    as far as there is so much of them; all else grows by one factor. Taken as a whole a part takes what it does when
    all of it is scaled alike, but how much of it is work that threads share or a compiler joins differs.

    ``tried`` is how many times as long tasks were seen to take in such a batch, not a number where they were not: where
    most of a part was seen it is shared out by that, and Python between the operators stands.
    """
    tasks = graph.tasks
    on_lane = (tasks.lane == tasks.lane_code(lane)) & (tasks.kind != KIND[TaskKind.DATA])
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    for part in _STANDING:
        factor = float(factors[PARTS.index(part)])
        chosen = np.flatnonzero(on_lane & (parts == PARTS.index(part)))
        work_us, python_us = graph.durations[chosen], graph.gaps[chosen]
        seen_us = _as_tried(work_us, tried[chosen], factor) if tried is not None else None
        if seen_us is not None:
            left_us = factor * float((work_us + python_us).sum()) - float(python_us.sum())
            scale = left_us / float(seen_us.sum())
            if 1 / _MOST_APART <= scale <= _MOST_APART:
                durations[chosen] = scale * seen_us
                continue
        calls_us = np.minimum(CALL_US, _MOST_OF_A_TASK * work_us)
        if standing is not None:
            calls_us += standing[chosen] * (work_us - calls_us)
        whole_us, standing_us = float((work_us + python_us).sum()), float((calls_us + python_us).sum())
        if larger == 1 or standing_us <= 0 or standing_us >= whole_us:
            durations[chosen], gaps[chosen] = factor * work_us, factor * python_us
            continue
        # No less than nothing stands, and what grows never shrinks by more than the batch does.
        kept_us = min(standing_us, max(0.0, whole_us * (larger - factor) / (larger - 1)))
        kept = kept_us / standing_us
        rest = max(0.0, (factor * whole_us - kept_us) / (whole_us - kept_us))
        durations[chosen] = kept * calls_us + rest * (work_us - kept * calls_us)
        gaps[chosen] = (kept + rest * (1 - kept)) * python_us
    others = np.flatnonzero(~(on_lane & np.isin(parts, [PARTS.index(part) for part in _STANDING])))
    on_lane_too = tasks.lane[others] == tasks.lane_code(lane)
    by_part = np.where(on_lane_too, factors[parts[others]], 1.0)
    durations[others] *= by_part
    gaps[others] *= by_part
    return graph.with_times(durations, gaps)


def grown_on_gpu(subject: Subject, graph: Graph, larger: float, wanted_ms: float) -> Graph:
    """The GPU's work of the passes in such a batch; the host launches as much as before, as fast as before.

    A step that its GPU bounds shows by how much its kernels grow. One that its host bounds shows only how much they
    grow at most: up to there they are taken to grow with the batch.
    """
    tasks = graph.tasks
    growing = np.flatnonzero(ON_GPU[tasks.kind] & ~np.isin(tasks.phase, _PER_WEIGHT))
    lane, ahead = subject.lane, subject.runs_ahead
    now_ms = simulated_ms(graph, lane, ahead)
    # A step that changes the other way than its batch does so by chance.
    change = max(0.0, (wanted_ms - now_ms) * np.sign(larger - 1)) + ROUNDING * now_ms
    within, beyond = 1.0, larger
    factor = larger
    for _ in range(_HALVINGS):
        if abs(simulated_ms(scale(graph, growing, factor), lane, ahead) - now_ms) <= change:
            within = factor
        else:
            beyond = factor
        factor = (within + beyond) / 2
    return scale(graph, growing, within)


def _as_tried(work_us: Times, growth: Times, factor: float) -> Times | None:
    """Times of tasks by their growth where it was seen, of the others by the part's; None where most were not seen."""
    seen = np.isfinite(growth)
    if not len(work_us) or work_us[seen].sum() < _LEAST_SEEN * work_us.sum() or not work_us.sum():
        return None
    return work_us * np.where(seen, growth, factor)


def growth(baseline: Subject, graph: Graph, larger: float) -> Times | None:
    """The factor of each task's time in such a batch where it was tried; None where none was tried, or not by task."""
    if baseline.tried is None or len(graph) < len(baseline.operators):
        return None
    return baseline.tried.growth(graph, larger)


def ratio_of_operators(baseline: Subject, factors: Times, larger: float) -> float | None:
    """The iteration's time in such a batch over that now, by how its operators were seen to grow.

    Python between them stands, and what was not seen grows with its part. None where no other batch was tried.
    """
    graph = baseline.operators
    tried = growth(baseline, graph, larger)
    if tried is None or not np.isfinite(tried).any():
        return None
    tasks = graph.tasks
    parts = parts_of(tasks)
    own = np.flatnonzero(tasks.lane == tasks.lane_code(baseline.lane))
    passes = np.isin(parts[own], [PARTS.index(part) for part in _STANDING])
    by_part = factors[parts[own]]
    times_us = graph.durations[own] * np.where(passes & np.isfinite(tried[own]), tried[own], by_part)
    times_us += graph.gaps[own] * np.where(passes, 1.0, by_part)
    now_us = float((graph.durations[own] + graph.gaps[own]).sum())
    return float(times_us.sum()) / now_us if now_us > 0 else None
