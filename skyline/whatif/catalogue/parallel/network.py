"""What if the links between ranks had more, or less, bandwidth."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Provenance, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.parallel.all_reduce import Link, latency_us
from skyline.whatif.catalogue.parallel.ddp_bucket import exchange_assumptions
from skyline.whatif.catalogue.parallel.gradient_exchange import (
    ALL_REDUCE,
    cores_are_shared,
    exchange_of,
    joined_by,
    with_exchange,
)
from skyline.whatif.constant import Constant
from skyline.whatif.question import number

_VALUES = ("2", "4", "10", "0.5")
_CARRIED = Constant(
    0.8,
    0.0,
    1.0,
    "an assumption: the share of a collective's time that moves data; the rest are its messages, and in the trace of "
    "one rank also the wait for the others",
)


@dataclass(frozen=True, slots=True)
class Network(UsualWhatIf):
    """Shortens the data transfer of collectives; their messages, and the work of other ranks, stay as they are."""

    name: str = "network"
    training_only: bool = True
    stage: Stage = Stage.COMMUNICATION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"links between ranks with {value or 'another'} times the bandwidth"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if collectives of GPUs were recorded, or if replicas exchange gradients on CPUs."""
        if subject.on_gpu:
            if not len(_collectives(subject.graph_of(Grain.OPERATORS))):
                return Applicability.no("no collective between GPUs was recorded")
        elif isinstance(fact := exchange_of(subject), str):
            return Applicability.no(fact)
        return Applicability(True, values=_VALUES, default="2")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Divide the part of each collective that moves data by the factor."""
        hint = f"Give a factor of the bandwidth: {self.name}=2."
        faster = number(self.name, value, lambda one: 0.01 <= one <= 1000, hint)
        if not subject.on_gpu:
            likely, least, most = (
                _between_processes(subject, scenario.graph, 1 + (faster - 1) * part)
                for part in (1.0, 1.0, 0.5)
            )
            return scenario.between(subject, likely, least, most, assumptions=exchange_assumptions(subject))
        chosen = _collectives(scenario.graph)
        likely, least, most = (
            scale(scenario.graph, chosen, 1 - part + part / faster)
            for part in (_CARRIED.value, _CARRIED.high, _CARRIED.low)
        )
        return scenario.between(
            subject,
            *((likely, least, most) if faster > 1 else (likely, most, least)),
            assumptions=(
                f"{_CARRIED.value:.0%} of the time of collectives is moving data, the rest messages and waiting",
            ),
            provenance=Provenance.ASSUMED,
        )


def _between_processes(subject: Subject, graph: Graph, faster: float) -> Graph:
    """The graph with the exchange of gradients over ``faster`` times as fast links; messages take as long as before."""
    fact = joined_by(subject)
    if fact is None:
        return graph
    exchanged = with_exchange(subject, graph, shared=cores_are_shared(subject))
    chosen = select(exchanged, name=ALL_REDUCE)
    before = exchanged.durations[chosen]
    fixed = np.minimum(before, Link(fact.world_size, latency_us(fact.backend), 1.0).fixed_us)
    after = fixed + (before - fixed) / faster
    return scale(exchanged, chosen, np.divide(after, before, out=np.ones(len(chosen)), where=before > 0))


def _collectives(graph: Graph) -> Indices:
    return select(graph, kind=TaskKind.KERNEL, phase=Phase.COMMUNICATION)


WHATIF = Network()
