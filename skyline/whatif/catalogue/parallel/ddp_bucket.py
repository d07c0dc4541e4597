"""What if the gradients of replicas travelled in smaller or larger buckets."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.errors import UsageError
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.parallel.all_reduce import DEFAULT_CAP_MB, MIB
from skyline.whatif.catalogue.parallel.gradient_exchange import (
    changes_buckets,
    cores_are_shared,
    exchange_of,
    exposed_us,
    with_exchange,
)

_CAPS_MB = (1, 5, 10, 25, 50, 100, 200)
_NEVER_SURER = 0.02


@dataclass(frozen=True, slots=True)
class DdpBucket(UsualWhatIf):
    """Rebuilds the buckets from the order in which gradients arrive, and exchanges them over a fitted link."""

    name: str = "ddp_bucket"
    stage: Stage = Stage.COMMUNICATION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"exchange gradients in buckets of {value or 'another'} MB"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable where replicas exchange gradients, and buckets could be cut otherwise."""
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        if subject.on_gpu:
            return Applicability.no("when gradients on a GPU are ready for their bucket is not known")
        now = fact.bucket_cap_mb or DEFAULT_CAP_MB
        total_mb = fact.gradient_bytes / MIB
        # Beyond the first cap that holds everything nothing changes any more.
        enough = next((cap for cap in _CAPS_MB if cap >= total_mb), _CAPS_MB[-1])
        values = [cap for cap in _CAPS_MB if cap <= enough and cap != now and changes_buckets(subject, cap)]
        if not values:
            return Applicability.no("gradients would travel in the buckets that they travel in now")
        costs = exposed_us(subject, values)
        best = values[costs.index(min(costs))]
        return Applicability(True, values=tuple(map(str, values)), default=str(best))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Exchange the new buckets as they become ready."""
        cap = _megabytes(self.name, value)
        shared = cores_are_shared(subject)
        likely = with_exchange(subject, scenario.graph, cap, shared=shared)
        now = subject.step_ms(likely)
        others = [
            subject.step_ms(with_exchange(subject, scenario.graph, cap, shared=other, slower=slower))
            for other, slower in ((False, 0.5), (True, 2.0))
        ]
        unsure = _NEVER_SURER * now
        return scenario.changed(
            likely,
            below_ms=max(unsure, now - min(others)),
            above_ms=max(unsure, max(others) - now),
            assumptions=exchange_assumptions(subject),
        )


def exchange_assumptions(baseline: Subject) -> tuple[str, ...]:
    """Assumptions of predictions about the exchange."""
    fitted = "the link is as fast as makes the script wait for its last gradients as it did, in a ring of all ranks"
    beside = (
        "computing and exchanging share the cores: all ranks run on this machine"
        if cores_are_shared(baseline)
        else "gradients are exchanged during the computing, which is not slowed down by it"
    )
    return fitted, beside


def _megabytes(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise UsageError(f"{name}={value} is not possible", hint=f"Give megabytes: {name}=25.")
    return number


WHATIF = DdpBucket()
