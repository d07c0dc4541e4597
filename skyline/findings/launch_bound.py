"""SKY201: the GPU is idle because the host launches work too slowly."""

from __future__ import annotations

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.bounds import busy_share, launches_per_iteration
from skyline.findings.gain import best_cure, spared_ms, step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.graph import scale
from skyline.graph.task import KIND, TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Grain
from skyline.whatif.subject import Subject

_GAIN = 0.25
"""Share of the step that a host without any cost would save. The TensorBoard plug-in reported a GPU that was busy less
than 50 % of the time for any reason (``torch_tb_profiler``, ``data.py``)."""
_HOST = 0.5
"""Threshold of SageMaker Debugger's CPUBottleneck: half of the time (``smdebug_rulesconfig``, ``rules.py``)."""
_LINES = 3
_KINDS = (KIND[TaskKind.CPU], KIND[TaskKind.LAUNCH])


@dataclass(frozen=True, slots=True)
class LaunchBound:
    """Host calls are most of the critical path, and without them the iteration would be a quarter shorter."""

    code: str = "SKY201"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line with the highest host cost; the cost is the saving with a host without any cost."""
        if not subject.on_gpu:
            return None
        path = subject.critical_path
        if path.cpu + path.launch <= _HOST:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        tasks = graph.tasks
        own = np.flatnonzero((tasks.lane == tasks.lane_code(subject.lane)) & np.isin(tasks.kind, _KINDS))
        cost_ms = spared_ms(subject, graph, scale(graph, own, 0.0, gaps=True))
        if cost_ms <= _GAIN * step_ms(subject):
            return None
        lines = dearest_lines(graph, own, (graph.durations + graph.gaps)[own])
        evidence = [_launches(subject)]
        evidence += [
            Evidence.at(
                f"the host spends {cost_us / 1e3 / max(1, subject.count):.2g} ms of an iteration here", line
            )
            for line, cost_us in lines[1:_LINES]
        ]
        cure, _ = best_cure(subject, ("compile", "cuda_graphs"))
        return Finding.at(
            self.code,
            f"the GPU is busy {busy_share(subject):.0%} of the time: the host launches work too slowly",
            lines[0][0] if lines else None,
            cost_ms,
            cure,
            tuple(evidence),
        )


def _launches(subject: Subject) -> Evidence:
    many = launches_per_iteration(subject)
    each_us = step_ms(subject) * 1e3 / many if many else 0.0
    return Evidence(f"{many:,.0f} launches in an iteration, one every {each_us:.0f} µs")


RULE = LaunchBound()
