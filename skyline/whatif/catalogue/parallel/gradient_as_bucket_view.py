"""What if gradients stayed in the buckets in which they are exchanged."""

from __future__ import annotations

import numpy as np

from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.parallel.gradient_exchange import COPY_BACK, exchange_of, joined_by

_UNSURE = 0.5
"""Share of the saved time that may reappear elsewhere: the step must fetch data that the copy had brought
into the cache."""


@dataclass(frozen=True, slots=True)
class GradientAsBucketView(UsualWhatIf):
    """Removes the copies out of buckets."""

    name: str = "gradient_as_bucket_view"
    training_only: bool = True
    words: str = "leave gradients in their buckets (gradient_as_bucket_view=True)"
    stage: Stage = Stage.COMMUNICATION

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if gradients were copied out of buckets."""
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        if fact.gradient_as_bucket_view:
            return Applicability.no("gradients are views of their buckets already")
        if not len(select(subject.operators, name=COPY_BACK)):
            return Applicability.no("no copy of a gradient out of its bucket was recorded")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Let the copies take no time; other waits remain."""
        fact = joined_by(subject)
        assert fact is not None
        graph = scenario.graph
        chosen = select(graph, phase=Phase.BACKWARD, name=COPY_BACK)
        saved_ms = float(np.asarray(graph.durations[chosen]).sum()) / subject.steps / 1e3
        return scenario.changed(
            scale(graph, chosen, 0.0),
            below_ms=0.1 * saved_ms,
            above_ms=_UNSURE * saved_ms,
            assumptions=(
                f"{fact.gradient_bytes / 1e6:.1f} MB less memory on top of the peak shown, which counts no buckets",
                "nothing in the script puts other tensors in the place of gradients",
            ),
        )


WHATIF = GradientAsBucketView()
