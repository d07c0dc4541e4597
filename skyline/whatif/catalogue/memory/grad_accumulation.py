"""What if each batch were taken through the model in several parts, with one optimizer step for all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph, scale
from skyline.graph.replication import replicate
from skyline.graph.selection import select
from skyline.graph.task import KIND, PARTS, PHASE, Part, TaskKind, parts_of
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels
from skyline.predict.batch_curve import BatchCurve
from skyline.trace.record import Phase
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.memory.batch_scaling import grown, growth
from skyline.whatif.cost.embedding_rows import cleared_shares
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.memory import Memory
from skyline.whatif.question import MOST_AT_ONCE, whole_number


def bytes_per_us(baseline: Subject) -> float:
    """The bytes per µs of the optimizer step, which does little else than move memory; 0 if its traffic is unknown."""
    moved = 0.0
    for fact in baseline.script.optimizers:
        update = update_of(fact)
        if update is None:
            return 0.0
        size = update.fused_bytes if fact.options.get("fused") else update.unfused_bytes
        moved += size * fact.parameter_count * max(1, fact.steps_per_iteration)
    if baseline.on_gpu:
        kernels = select(baseline.graph, phase=Phase.OPTIMIZER, kind=TaskKind.KERNEL)
        traffic_us = float(baseline.graph.durations[kernels].sum()) / baseline.steps
    else:
        now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
        traffic_us = baseline.step.traffic_share * now_ms * 1e3
    return moved / traffic_us if traffic_us > 0 else 0.0


_ADDING = 12
"""Bytes per float32 parameter to add a gradient to the existing one: read both, write one."""
_MOST = 16


@dataclass(frozen=True, slots=True)
class GradAccumulation(UsualWhatIf):
    """Repeats forward and backward work at the size of a part, with its time from the measured batch curve."""

    name: str = "grad_accumulation"
    training_only: bool = True
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.WORKLOAD
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """The change in a few words."""
        return (
            f"each batch in {'one part' if value == '1' else f'{value} parts'} (gradient accumulation)"
            if value
            else "each batch in several parts"
        )

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if other batch sizes were measured; two parts by default."""
        curve = subject.curve
        if curve.base is None or curve.reason:
            return Applicability.no(curve.reason)
        if curve.base < 2:
            return Applicability.no("a batch of one sample cannot be split")
        values = tuple(str(parts) for parts in (2, 4, 8, _MOST) if curve.base % parts == 0)
        if not values:
            return Applicability.no(f"a batch of {curve.base} samples cannot be split into equal parts")
        return Applicability(True, values=values, default=values[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Repeat forward and backward work of the smaller size for each part; the rest stays."""
        parts = whole_number(self.name, value, most=MOST_AT_ONCE)
        size = scenario.batch_size or subject.curve.base or 0
        if parts > size == subject.curve.base:
            # With another batch size asked together with it, the value itself is not a mistake.
            raise UsageError(
                f"{self.name}={value} is more parts than the {size} samples of a batch",
                hint="Give a number that divides the batch size.",
            )
        if size % parts:
            return replace(
                scenario, reason=f"a batch of {size} samples cannot be split into {parts} equal parts"
            )
        if parts == 1:
            return scenario
        part_size = size // parts
        curve = subject.curve
        factors = _factors(curve, size, part_size)
        tried = _shrinkage(subject, scenario.graph, scenario.batch_factor(subject), parts)
        likely = _repeated(scenario.graph, subject, factors, parts, tried, 1.0)
        ratio = curve.ratio(part_size)
        least, most = ratio.low / ratio.value, ratio.high / ratio.value
        extrapolated = curve.extrapolated(part_size)
        changed = scenario.between(
            subject,
            likely,
            _repeated(scenario.graph, subject, factors, parts, tried, min(least, 0.97)),
            _repeated(scenario.graph, subject, factors, parts, tried, max(most, 1.03)),
            assumptions=_assumptions(subject, part_size, curve),
            provenance=Provenance.TRIED if curve.measured(part_size) else Provenance.MODELLED,
            memory=lambda memory: _memory(memory, subject, size, part_size),
        )
        return replace(changed, extrapolated=changed.extrapolated or extrapolated, parts=parts)


def _shrinkage(subject: Subject, graph: Graph, larger: float, parts: int) -> Times | None:
    """The ratio of each task's time in a part of the batch to that in the whole batch; None if not tried."""
    whole, part = (
        np.ones(len(graph)) if factor == 1.0 else growth(subject, graph, factor)
        for factor in (larger, larger / parts)
    )
    return None if whole is None or part is None else part / whole


def _factors(curve: BatchCurve, size: int, part_size: int) -> dict[Part, float]:
    """The ratio of the time of each part of the iteration for a part of the batch to that for the whole batch."""
    now, then = curve.part_factors(size), curve.part_factors(part_size)
    return {part: then[part] / now[part] if now[part] > 0 else 1.0 for part in Part}


def _repeated(
    graph: Graph,
    subject: Subject,
    factors: dict[Part, float],
    parts: int,
    tried: Times | None,
    unsure: float,
) -> Graph:
    """The graph with forward and backward work scaled to the smaller size, and repeated for each part.

    ``tried`` is the ratio of the tasks' measured times in a batch of that size to their present times.
    """
    told_apart = {part for part, ms in subject.parts_ms.items() if ms > 0}
    by_part = np.array([factors[part if part in told_apart else Part.REST] for part in PARTS])
    adding_us = _adding_us(subject)
    passes = [_passes(graph, subject.lane, iteration) for iteration in graph.iterations]
    everything = np.concatenate(passes) if passes else np.zeros(0, np.int64)
    if subject.on_gpu:
        # The host's time to launch work does not depend on its size.
        on_host = graph.tasks.lane[everything] == graph.tasks.lane_code(subject.lane)
        factor = np.where(on_host, 1.0, by_part[parts_of(graph.tasks)[everything]] * unsure)
        smaller = scale(graph, everything, factor, gaps=True)
    else:
        smaller = _shrunk(graph, subject, everything, by_part * unsure, 1 / parts, tried)
    backward = smaller.tasks.phase == PHASE[Phase.BACKWARD]
    durations = smaller.durations.copy()
    for rows in passes:
        last = rows[backward[rows]]
        if len(last):
            # The cost is spread over the rounds; the first one only stores its gradients.
            durations[last[-1]] += adding_us * (parts - 1) / parts
    smaller = smaller.with_times(durations=durations)
    for iteration in graph.iterations:
        smaller = replicate(smaller, _passes(smaller, subject.lane, iteration), parts)
    return smaller


def _shrunk(
    graph: Graph, subject: Subject, chosen: Indices, by_part: Times, size: float, tried: Times | None
) -> Graph:
    """The graph with the chosen work for a smaller batch; Python and calls shrink only as far as the curve says.

    The clearing of dense gradients of tables does not shrink: each part clears them again.
    """
    rest = np.ones(len(graph), np.bool_)
    rest[chosen] = False
    # Tasks that are not chosen get the loader's part, whose factor is 1, so that ``grown`` leaves them
    # unchanged.
    parts = np.where(rest, PARTS.index(Part.LOADER), parts_of(graph.tasks)).astype(np.uint8)
    factors = np.where(np.arange(len(PARTS)) == PARTS.index(Part.LOADER), 1.0, by_part)
    cleared = cleared_shares(subject.script, graph)
    return grown(graph, subject.lane, parts, factors, size, cleared, tried)


def _passes(graph: Graph, lane: str, iteration: int) -> Indices:
    """The forward and backward work of one iteration on all lanes, with the script's work in between."""
    tasks = graph.tasks
    within = (tasks.iteration == iteration) & (tasks.kind != KIND[TaskKind.DATA])
    chosen = within & np.isin(tasks.phase, (PHASE[Phase.FORWARD], PHASE[Phase.BACKWARD]))
    main = np.flatnonzero(chosen & (tasks.lane == tasks.lane_code(lane)))
    if len(main):
        between = np.zeros(len(graph), np.bool_)
        between[main[0] : main[-1] + 1] = True
        chosen |= between & within & (tasks.phase == PHASE[Phase.OTHER])
    return np.flatnonzero(chosen)


def _adding_us(subject: Subject) -> float:
    speed = bytes_per_us(subject)
    count = sum(fact.parameter_count for fact in subject.script.optimizers)
    return _ADDING * count / speed if speed else 0.0


def _memory(memory: Memory, subject: Subject, size: int, part_size: int) -> Memory:
    """The memory with the activations of a part of the batch, and with all gradients from the second part on.

    The loader still delivers whole batches.
    """
    peak = subject.curve.peak_bytes(part_size)
    whole = _activations_at(subject, size, subject.curve.peak_bytes(size).value)
    factors = [_activations_at(subject, part_size, end) / whole if whole > 0 else 1.0 for end in peak.ends]

    likely, least, most = factors
    return memory.changed(
        partial(_in_parts, factor=likely),
        partial(_in_parts, factor=least, waiting=False),
        partial(_in_parts, factor=most),
    )


def _in_parts(levels: RecordedLevels, factor: float, *, waiting: bool = True) -> RecordedLevels:
    """The levels with fewer activations. If gradients are ``waiting`` for the next part, all exist at all moments."""
    made = levels.scaled(factor)
    if not waiting:
        return made
    return made.having_gradients(np.full_like(made.gradients, made.gradients.max()))


def _activations_at(subject: Subject, size: int, peak_bytes: float) -> float:
    """The most activations of the unchanged script at a batch size where it has this peak."""
    start = subject.memory
    assert start is not None
    larger = size / (subject.curve.base or size)
    return start.to_peak(Interval.exact(peak_bytes), subject.batch_bytes, larger).levels.most_activations


def _assumptions(subject: Subject, part_size: int, curve: BatchCurve) -> tuple[str, ...]:
    how = "measured" if curve.measured(part_size) else "taken from the batch curve"
    if subject.script.prediction is not None:
        how = "predicted"
    said = [
        f"forward and backward pass for {part_size} samples are {how}; the loader still delivers whole batches"
    ]
    if any("BatchNorm" in fact.class_name for fact in subject.script.modules):
        said.append("BatchNorm sees the parts and not the batch: the training changes")
    else:
        said.append("the loss is a mean over equal parts: then the gradients are the same up to rounding")
    return tuple(said)


WHATIF = GradAccumulation()
