"""What if loader workers outlived the epoch instead of being started again in each epoch."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.loader_setting import (
    in_every_iteration,
    iterations_per_epoch,
    once_in_an_epoch,
    shorter_on_average,
    start_ms,
    training_loader,
)


@dataclass(frozen=True, slots=True)
class PersistentWorkers(UsualWhatIf):
    """Removes the start of the workers from every epoch but the first."""

    name: str = "persistent_workers"
    words: str = "keep loader workers from one epoch to the next"
    stage: Stage = Stage.LOADING
    grain: Grain = Grain.PHASES

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if there are workers that do not persist, and the length of an epoch is known."""
        loader = training_loader(subject)
        if loader is None:
            return Applicability.no("no DataLoader delivers the batches")
        if not loader.num_workers:
            reason = "the DataLoader has no workers; combine this with num_workers"
            return Applicability(False, reason, only_with=("num_workers",))
        if loader.persistent_workers:
            return Applicability.no("the workers persist already")
        if iterations_per_epoch(subject, None) is None:
            return Applicability.no("the number of iterations in an epoch is not known")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Subtract its share of the start from each iteration; ``num_workers`` counts the start of new workers."""
        loader, many = training_loader(subject), iterations_per_epoch(subject, scenario.batch_size)
        if loader is None or not loader.num_workers or many is None:
            return scenario
        cost = start_ms(subject.script, loader.num_workers)
        each = cost.scaled(1 / many)
        beside_ms = 0.0 if in_every_iteration(many) else each.value
        shorter = shorter_on_average(scenario.graph, subject, each.value, beside_ms)
        saved_ms = subject.step_ms(shorter) - subject.step_ms(scenario.graph)
        return once_in_an_epoch(
            scenario,
            shorter,
            # An iteration in the middle of an epoch starts no worker, and takes as long as before.
            Interval(saved_ms, saved_ms - each.high + each.value, saved_ms + each.value - each.low),
            iterations=many,
            assumptions=(
                f"starting the workers takes about {cost.value:.0f} ms in each epoch of {many:.0f} iterations",
                "the iteration time is the mean of all iterations, including the first of an epoch",
            ),
        )


WHATIF = PersistentWorkers()
