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
"""The parts in which some work does not grow with the batch. Loading works on each sample by itself,
including its Python time, and the optimizer step does not grow in any case."""
_PER_WEIGHT = (PHASE[Phase.OPTIMIZER], PHASE[Phase.COMMUNICATION])
"""The update and the exchange of gradients do the same work for any batch."""
_HALVINGS = 20
_MOST_OF_A_TASK = 0.5
_LEAST_SEEN = 0.7
_MOST_APART = 1.5
"""The largest ratio between the time of a part by the curve and by trials; beyond it, the trial is another
computation."""


def grown(
    graph: Graph,
    lane: str,
    parts: Codes,
    factors: Times,
    larger: float,
    standing: Times | None = None,
    tried: Times | None = None,
) -> Graph:
    """The graph with the lane's tasks in a batch ``larger`` times as large; each part takes ``factors`` times as long.

    ``parts`` gives each task's part, as a code. ``standing`` is the share of each task beyond its call that
    is known not to grow, such as clearing a table of gradients. A line through the times of a part at both
    sizes shows how much of it does not grow. That time is assigned to Python between the operators, to the
    operators' calls and to the work in ``standing``, as far as they have so much time; all other work grows
    by one factor. The sum of a part is the same as if all of it were scaled alike, but the share of work that
    threads divide or a compiler fuses differs.

    ``tried`` is the measured growth of each task in such a batch, or NaN. If most of a part was measured, its
    time is divided by these growths, and Python between the operators does not grow.
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
        # The standing time is not negative, and growing work never shrinks by more than the batch does.
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
    """The graph with the GPU's work of the passes in such a batch; the host launches as much and as fast as before.

    A step bounded by its GPU shows how much its kernels grow. A step bounded by its host shows only the most
    that they can grow: up to this limit, they are assumed to grow with the batch.
    """
    tasks = graph.tasks
    growing = np.flatnonzero(ON_GPU[tasks.kind] & ~np.isin(tasks.phase, _PER_WEIGHT))
    lane, ahead = subject.lane, subject.runs_ahead
    now_ms = simulated_ms(graph, lane, ahead)
    # A step that changes in the opposite direction of its batch does so by chance.
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
    """The times of tasks by their measured growth, else by the part's factor; None if most were not measured."""
    seen = np.isfinite(growth)
    if not len(work_us) or work_us[seen].sum() < _LEAST_SEEN * work_us.sum() or not work_us.sum():
        return None
    return work_us * np.where(seen, growth, factor)


def growth(baseline: Subject, graph: Graph, larger: float) -> Times | None:
    """The factor of each task's time in such a batch, by trials; None without trials, or if tasks are merged."""
    if baseline.tried is None or len(graph) < len(baseline.operators):
        return None
    return baseline.tried.growth(graph, larger)


def ratio_of_operators(baseline: Subject, factors: Times, larger: float) -> float | None:
    """The ratio of the iteration's time in such a batch to now, by the measured growth of its operators.

    Python between operators does not grow, and unmeasured operators grow with their part. None if no other
    batch was tried.
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
