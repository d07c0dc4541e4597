"""SKY603: evaluation of the model takes a large part of the iteration."""

from __future__ import annotations

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.graph.graph import Graph
from skyline.graph.task import ON_GPU, PHASE
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import CallFact
from skyline.trace.record import Phase
from skyline.units import how_often
from skyline.whatif.base import Grain
from skyline.whatif.subject import Subject

_SHARE = 0.20
_CALL = "eval forward"


@dataclass(frozen=True, slots=True)
class EvaluationShare:
    """Forward passes in evaluation mode of a training model take more than a fifth of the iteration."""

    code: str = "SKY603"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the evaluating line; the cost is the forward passes, which are only a part of the evaluation."""
        calls = _evaluations(subject)
        if not calls or not subject.trains:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = _work(subject, graph, tuple(str(call.options["module"]) for call in calls))
        seen = len(np.unique(graph.tasks.iteration[chosen]))
        # A rare event that was recorded by chance would be overestimated.
        if seen < subject.steps:
            return None
        cost_ms = float((graph.durations + graph.gaps)[chosen].sum()) / 1e3 / subject.steps
        total_ms = step_ms(subject)
        if cost_ms <= _SHARE * total_ms or _by_chance(subject, cost_ms):
            return None
        cure = "inference_mode" if saved_ms(subject, "inference_mode") > 0 else None
        return Finding.at(
            self.code,
            f"{cost_ms / total_ms:.0%} of the iteration evaluates the model",
            calls[0].line,
            cost_ms,
            cure,
            tuple(
                Evidence.at(
                    f"{call.options['module']} is evaluated {how_often(call.per_iteration)} in an iteration",
                    call.line,
                )
                for call in calls
            ),
        )


def _by_chance(baseline: Subject, cost_ms: float) -> bool:
    """True if the only recorded iteration exceeds the others by the time of the evaluation."""
    recorded_ms = baseline.script.recorded_ms
    if baseline.steps > 1 or not recorded_ms:
        return False
    return recorded_ms[0] - baseline.iteration_ms.value > 0.5 * cost_ms


def _evaluations(baseline: Subject) -> list[CallFact]:
    """Passes without a gradient, in evaluation mode, of training models; the most frequent first."""
    roots = {module.path for module in baseline.script.modules if module.trainable or "." not in module.path}
    found = [
        call
        for call in baseline.script.calls
        if call.name == _CALL
        and call.options.get("training") is False
        and call.options.get("module") in roots
        and call.line is not None
    ]
    return sorted(found, key=lambda call: -call.per_iteration)


def _work(
    baseline: Subject, graph: Graph, modules: tuple[str, ...]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The work in these modules outside training passes: on the GPU if there is one, else on the host."""
    tasks = graph.tasks
    inside = [
        any(name == module or name.startswith(f"{module}.") for module in modules)
        for name in graph.structure.modules
    ]
    known = np.array([*inside, False])
    place = np.where((tasks.module >= 0) & (tasks.module < len(inside)), tasks.module, len(inside))
    where = ON_GPU[tasks.kind] if baseline.on_gpu else tasks.lane == tasks.lane_code(baseline.lane)
    chosen = known[place] & (tasks.phase == PHASE[Phase.OTHER]) & where
    return np.flatnonzero(chosen).astype(np.int64)


RULE = EvaluationShare()
