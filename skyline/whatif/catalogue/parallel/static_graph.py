"""What if the replicas knew that every step uses the same parameters."""

from __future__ import annotations

from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase, RecordKind, Trace
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.parallel.gradient_exchange import exchange_of, joined_by

_GOES = Interval(0.8, 0.3, 1.0)
"""The share of the time after the model's forward pass that is spent searching for unused parameters."""


@dataclass(frozen=True, slots=True)
class StaticGraph(UsualWhatIf):
    """Removes the search for unused parameters, which follows every forward pass."""

    name: str = "static_graph"
    training_only: bool = True
    words: str = "promise the same graph in every step (static_graph=True)"
    stage: Stage = Stage.COMMUNICATION
    grain: Grain = Grain.PHASES

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if DDP searches for unused parameters."""
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        if fact.static_graph:
            return Applicability.no("the graph is promised to be static already")
        if fact.find_unused_parameters is None:
            return Applicability.no("it is not known whether DDP searches for unused parameters")
        if not fact.find_unused_parameters:
            return Applicability.no("DDP does not search for unused parameters: there is nothing to save")
        if _searching_share(subject.script.trace, fact.name) <= 0:
            return Applicability.no("the search for unused parameters takes no measurable time")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten Python's time in the forward pass by the part after the model's own work."""
        fact = joined_by(subject)
        assert fact is not None
        share = _searching_share(subject.script.trace, fact.name)
        graph = scenario.graph
        chosen = select(graph, phase=Phase.FORWARD, lane=subject.lane)

        def without(goes: float) -> list[float]:
            gaps = graph.gaps.copy()
            gaps[chosen] *= 1 - share * goes
            return gaps.tolist()

        cases = (graph.with_times(gaps=without(goes)) for goes in (_GOES.value, _GOES.high, _GOES.low))
        return scenario.between(
            subject,
            *cases,
            assumptions=("every step uses the same parameters, in the same order",),
            provenance=Provenance.ASSUMED,
        )


def _searching_share(trace: Trace, wrapper: str) -> float:
    """The ratio of Python's time in the wrapper after the wrapped model to all Python time in the forward pass."""
    roots = {place for place, path in enumerate(trace.modules) if path == wrapper}
    forward = [
        (record.iteration, record.module, record.duration_us, record.kind)
        for record in trace.records
        if record.phase is Phase.FORWARD
    ]
    last_inside = {
        iteration: place
        for place, (iteration, module, _, _) in enumerate(forward)
        if module >= 0 and trace.modules[module].startswith(f"{wrapper}.")
    }
    python_us = sum(took for _, _, took, kind in forward if kind is RecordKind.PYTHON)
    behind_us = sum(
        took
        for place, (iteration, module, took, kind) in enumerate(forward)
        if kind is RecordKind.PYTHON and module in roots and place > last_inside.get(iteration, len(forward))
    )
    return behind_us / python_us if python_us > 0 else 0.0


WHATIF = StaticGraph()
