"""What if replicas exchanged their gradients in smaller or larger buckets."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ParallelFact
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.parallel.all_reduce import DEFAULT_CAP_MB, MIB
from skyline.whatif.catalogue.parallel.device_exchange import (
    changes_device_buckets,
    recorded_exchange,
    with_device_buckets,
)
from skyline.whatif.catalogue.parallel.gradient_exchange import (
    changes_buckets,
    cores_are_shared,
    exchange_of,
    exposed_us,
    joined_by,
    with_exchange,
)
from skyline.whatif.question import number

_CAPS_MB = (1, 5, 10, 25, 50, 100, 200)
_NEVER_SURER = 0.02


@dataclass(frozen=True, slots=True)
class DdpBucket(UsualWhatIf):
    """Rebuilds the buckets from the order in which gradients arrive, and exchanges them over a fitted link."""

    name: str = "ddp_bucket"
    training_only: bool = True
    stage: Stage = Stage.COMMUNICATION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"exchange gradients in buckets of {value or 'another'} MB"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if replicas exchange gradients, and other bucket sizes would change the buckets."""
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        now = fact.bucket_cap_mb or DEFAULT_CAP_MB
        if subject.on_gpu:
            return _between_gpus(subject, fact, now)
        total_mb = fact.gradient_bytes / MIB
        # Caps above the first one that holds all gradients change nothing.
        enough = next((cap for cap in _CAPS_MB if cap >= total_mb), _CAPS_MB[-1])
        values = [cap for cap in _CAPS_MB if cap <= enough and cap != now and changes_buckets(subject, cap)]
        if not values:
            return Applicability.no("gradients would be exchanged in the same buckets as now")
        costs = exposed_us(subject, values)
        best = values[costs.index(min(costs))]
        return Applicability(True, values=tuple(map(str, values)), default=str(best))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Exchange the new buckets as they become ready."""
        cap = number(self.name, value, lambda one: 0 < one < 1e6, f"Give megabytes: {self.name}=25.")
        if subject.on_gpu:
            return _exchanged_between_gpus(subject, scenario, cap)
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


def _between_gpus(subject: Subject, fact: ParallelFact, now_mb: float) -> Applicability:
    graph = subject.operators
    exchange = recorded_exchange(subject, fact)
    if isinstance(exchange, str):
        return Applicability.no(exchange)
    values = [cap for cap in _CAPS_MB if changes_device_buckets(subject, graph, now_mb, cap)]
    if not values:
        return Applicability.no("gradients would be exchanged in the same buckets as now")
    best = min(
        values,
        key=lambda cap: subject.step_ms(with_device_buckets(subject, graph, exchange, cap, exchange.link)),
    )
    return Applicability(True, values=tuple(map(str, values)), default=str(best))


def _exchanged_between_gpus(subject: Subject, scenario: Scenario, cap_mb: float) -> Scenario:
    fact = joined_by(subject)
    exchange = None if fact is None else recorded_exchange(subject, fact)
    if fact is None or exchange is None or isinstance(exchange, str):
        return scenario
    likely, faster, as_now = (
        with_device_buckets(subject, scenario.graph, exchange, cap, link)
        for cap, link in (
            (cap_mb, exchange.link),
            (cap_mb, exchange.fastest),
            (fact.bucket_cap_mb or DEFAULT_CAP_MB, exchange.link),
        )
    )
    step_ms = subject.step_ms(likely)
    # Rebuilding the present buckets should give the recorded step; the difference is the error of rebuilding.
    rebuilt_ms = abs(subject.step_ms(as_now) - subject.step_ms(scenario.graph))
    unsure_ms = max(_NEVER_SURER * step_ms, rebuilt_ms)
    return scenario.changed(
        likely,
        below_ms=max(unsure_ms, step_ms - subject.step_ms(faster)),
        above_ms=unsure_ms,
        assumptions=(
            "a bucket leaves when the backward pass of its last module has run, and the update waits for the last one",
            "the links move as much per second as in the recorded all-reduces, including waits for other ranks",
        ),
    )


def exchange_assumptions(baseline: Subject) -> tuple[str, ...]:
    """Assumptions of predictions about the exchange."""
    fitted = "the link speed is fitted to the recorded wait for the last gradients, in a ring of all ranks"
    beside = (
        "computing and exchanging share the cores: all ranks run on this machine"
        if cores_are_shared(baseline)
        else "gradients are exchanged during the computing, which is not slowed down by it"
    )
    return fitted, beside


WHATIF = DdpBucket()
