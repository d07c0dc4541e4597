"""The rate at which the device moves operators' data, as the recording shows it."""

from __future__ import annotations

from skyline.graph.part import Part
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.phase import Phase
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.subject import Subject


def bytes_per_us(baseline: Subject) -> float:
    """Of the optimizer step, which does little else than move memory; 0 where it is not known what it moves."""
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
