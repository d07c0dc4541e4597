"""What if evaluation within the iteration did not record gradients."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.task import KIND, PHASE, TaskKind
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import CallFact
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.subject import NEEDS_PROFILE

_CALL = "eval forward"
_HOST = (KIND[TaskKind.CPU], KIND[TaskKind.LAUNCH])
# By ``benchmarks/evaluation_mode.py``.
PER_OPERATOR_US = Interval(1.4, 0.7, 2.5)
"""The time in µs for a graph node that is not created, and for the objects it refers to."""
KEPT_SHARE = Interval(0.05, 0.0, 0.13)
"""The saved share of an operator's time on a CPU: if memory is kept, the next operator needs new memory."""
_WORTH_ASKING = 0.001


@dataclass(frozen=True, slots=True)
class InferenceMode(UsualWhatIf):
    """Removes the recording of gradients from forward passes that no backward pass follows."""

    name: str = "inference_mode"
    words: str = "evaluate without recording gradients (inference_mode or no_grad)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if a recorded iteration evaluates with gradients enabled."""
        profile = subject.profile
        if profile is None:
            return Applicability.no(NEEDS_PROFILE)
        calls = [call for call in profile.calls if call.name == _CALL]
        if not calls:
            return Applicability.no("no evaluation ran within the recorded iterations")
        if not _recording(profile):
            return Applicability.no("evaluation within the iteration records no gradients already")
        graph = subject.graph_of(self.grain)
        chosen = _evaluating(subject, graph)
        took = float((graph.durations + graph.gaps)[chosen].sum()) / 1e3
        if took < _WORTH_ASKING * subject.steps * subject.iteration_ms.value:
            return Applicability.no("evaluation takes almost no time of the iteration")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten each operator of the evaluation a little; on a GPU only its launch."""
        graph = scenario.graph
        chosen = _evaluating(subject, graph)
        took = graph.durations[chosen]
        cases = (
            scale(graph, chosen, _left(took, per_operator, 0.0 if subject.on_gpu else share))
            for per_operator, share in (
                (PER_OPERATOR_US.value, KEPT_SHARE.value),
                (PER_OPERATOR_US.high, KEPT_SHARE.high),
                (PER_OPERATOR_US.low, KEPT_SHARE.low),
            )
        )
        forward_ms = float((graph.durations + graph.gaps)[chosen].sum()) / 1e3 / max(1, subject.steps)
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                f"evaluation takes {forward_ms:.2g} ms of an iteration, and nothing of it is differentiated",
                "the memory that evaluation keeps now is not counted",
            ),
        )


def _recording(profile: Profile) -> list[CallFact]:
    """Evaluating forward passes that record gradients."""
    return [call for call in profile.calls if call.name == _CALL and call.options.get("grad_enabled") is True]


def _evaluating(subject: Subject, graph: Graph) -> Indices:
    """The host's operators in these passes: in the called modules, outside of all training passes."""
    profile, tasks = subject.profile, graph.tasks
    roots = (
        tuple(
            path
            for call in _recording(profile)
            if isinstance(path := call.options.get("module"), str) and path
        )
        if profile is not None
        else ()
    )
    known = np.array(
        [
            any(name == root or name.startswith(f"{root}.") for root in roots)
            for name in graph.structure.modules
        ]
        + [False]
    )
    inside = known[np.where(tasks.module < len(graph.structure.modules), tasks.module, -1)]
    chosen = inside & (tasks.phase == PHASE[Phase.OTHER]) & np.isin(tasks.kind, _HOST) & (graph.durations > 0)
    return np.flatnonzero(chosen).astype(np.int64)


def _left(took: np.ndarray, per_operator_us: float, share: float) -> np.ndarray:
    """The factors of operators that took ``took`` µs: no operator loses more than half of its time."""
    saved = np.minimum(0.5 * took, per_operator_us + share * took)
    return 1 - np.divide(saved, took, out=np.zeros(len(took)), where=took > 0)


WHATIF = InferenceMode()
