"""What if each rank sent only its largest gradients, and kept the others for a later step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyline.errors import UsageError
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Provenance, Scenario, Semantics, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.parallel.all_reduce import DEFAULT_CAP_MB, Link, latency_us
from skyline.whatif.catalogue.parallel.data_parallel import with_all_reduces
from skyline.whatif.catalogue.parallel.device_exchange import recorded_exchange, with_device_buckets
from skyline.whatif.catalogue.parallel.gradient_exchange import (
    ALL_REDUCE,
    cores_are_shared,
    exchange_of,
    joined_by,
    with_exchange,
)
from skyline.whatif.constant import Constant
from skyline.whatif.cost.worker_exchange import LINKS, REACHED, Workers, gradients_of, why_alone
from skyline.whatif.number_formats import gpu_bytes_per_us
from skyline.whatif.question import number

_SENT_BYTES = Constant.at(8.0, "a number in float32 and its index, as in Deep Gradient Compression")
_PASSES = Constant(
    8.0,
    3.0,
    30.0,
    "reads of all gradients to keep the rest and to find a threshold: DGC (Lin and others, ICLR 2018) samples 0.1 to "
    "1 %, MSTopK (Shi and others, MLSys 2021) searches in up to 30 reads",
)
_CPU_BYTES_PER_US = Constant.at(10e3, "an assumption: a core reads 10 GB/s from memory")
_VALUES = ("0.01", "0.001")


@dataclass(frozen=True, slots=True)
class SparseLink(Link):
    """A link over which each rank sends ``ratio`` of its numbers with their indices to all others.

    ``selecting_us_per_byte`` is the time to choose them, for each byte of the gradients.
    """

    ratio: float
    selecting_us_per_byte: float

    def all_reduce_us(self, size_bytes: float) -> float:
        """The time of the choice and an all-gather, in µs: each rank sums up, since ranks choose different numbers."""
        sent = size_bytes / 4 * self.ratio * _SENT_BYTES.value
        others = self.ranks - 1
        return size_bytes * self.selecting_us_per_byte + others * (self.latency_us + sent / self.bytes_per_us)


@dataclass(frozen=True, slots=True)
class _Asked:
    ratio: float
    workers: Workers | None

    @classmethod
    def parse(cls, name: str, value: str) -> _Asked:
        """The values of ``0.01``, or of ``0.01:8@25`` with workers that do not exist yet. Raises UsageError."""
        text, colon, workers = value.partition(":")
        hint = (
            f"{name}=0.01 sends 1 % of the gradients; for a script of one rank with 8 workers at 25 Gbit/s: "
            f"{name}=0.01:8@25."
        )
        ratio = number(name, text, lambda one: 1e-6 <= one <= 0.5, hint, needs="a ratio of gradients")
        return cls(ratio, Workers.parse(f"{name}={text}:", workers) if colon else None)


@dataclass(frozen=True, slots=True)
class TopK(UsualWhatIf):
    """Replaces each all-reduce by a choice and an all-gather of the chosen gradients."""

    name: str = "topk"
    training_only: bool = True
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.COMMUNICATION
    excludes: tuple[str, ...] = ("data_parallel", "p3", "ddp_compression", "ddp_bucket")

    def title(self, value: str) -> str:
        """The change in a few words."""
        ratio = value.partition(":")[0]
        return f"exchange {ratio or 'a part'} of the gradients (the largest)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if replicas exchange gradients, and to a script of one rank if workers are given."""
        if subject.recording is None and not why_alone(subject, subject.graph_of(self.grain)):
            return Applicability(True)
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        if fact.comm_hook:
            return Applicability.no(f"a communication hook is registered already: {fact.comm_hook}")
        if subject.on_gpu:
            exchange = recorded_exchange(subject, fact)
            if isinstance(exchange, str):
                return Applicability.no(exchange)
        return Applicability(True, values=_VALUES, default=_VALUES[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Exchange the chosen gradients of each bucket."""
        asked = _Asked.parse(self.name, value)
        alone = joined_by(subject) is None
        if alone != (asked.workers is not None):
            hint = f"{self.name}=0.01:8@25" if alone else f"{self.name}=0.01"
            raise UsageError(
                f"{self.name}={value} does not suit the ranks of this script", hint=f"Write {hint}."
            )
        cases = (
            _exchanged(subject, scenario.graph, asked, passes, share)
            for passes, share in (
                (_PASSES.value, REACHED.value),
                (_PASSES.low, REACHED.high),
                (_PASSES.high, REACHED.low),
            )
        )
        size = _gradient_bytes(subject)
        changed = scenario.between(
            subject,
            *cases,
            assumptions=(
                *((asked.workers.assumption(),) if asked.workers else ()),
                "all gradients are float32; gradients that are not sent are added to those of the next step",
                "the ranks choose different numbers, and choosing slows down no other work",
                "the same accuracy takes warm-up and momentum correction (DGC), or more steps",
            ),
            memory=lambda memory: memory.more("other", Interval.exact(size)),
            provenance=Provenance.ASSUMED,
        )
        count = asked.workers.count if asked.workers else 1
        return replace(changed, samples_factor=changed.samples_factor * count)


def _exchanged(subject: Subject, graph: Graph, asked: _Asked, passes: float, share: float) -> Graph:
    selecting = passes / _bytes_per_us(subject)
    if asked.workers is not None:
        backend = "nccl" if subject.on_gpu else "gloo"
        link = Link(asked.workers.count, latency_us(backend), asked.workers.bytes_per_us(share))
        return with_all_reduces(subject, graph, _sparse(link, asked.ratio, selecting), DEFAULT_CAP_MB, LINKS)
    fact = joined_by(subject)
    assert fact is not None
    if subject.on_gpu:
        exchange = recorded_exchange(subject, fact)
        if isinstance(exchange, str):
            return graph
        link = _sparse(exchange.link, asked.ratio, selecting)
        return with_device_buckets(subject, graph, exchange, fact.bucket_cap_mb or DEFAULT_CAP_MB, link)
    dense = with_exchange(subject, graph, shared=cores_are_shared(subject))
    chosen = select(dense, name=ALL_REDUCE)
    sizes = [float(dense.tasks[int(task)].name.split()[1]) * 1e6 for task in chosen]
    before = dense.durations[chosen]
    fixed = Link(fact.world_size, latency_us(fact.backend), 1.0)
    passed = 2 * (fact.world_size - 1) / fact.world_size
    after = [
        _sparse(
            replace(fixed, bytes_per_us=passed * size / max(1e-9, took - fixed.fixed_us)),
            asked.ratio,
            selecting,
        ).all_reduce_us(size)
        for size, took in zip(sizes, before.tolist(), strict=True)
    ]
    return scale(dense, chosen, np.divide(after, before, out=np.ones(len(chosen)), where=before > 0))


def _sparse(link: Link, ratio: float, selecting_us_per_byte: float) -> SparseLink:
    return SparseLink(link.ranks, link.latency_us, link.bytes_per_us, ratio, selecting_us_per_byte)


def _bytes_per_us(subject: Subject) -> float:
    return gpu_bytes_per_us(subject) if subject.on_gpu else _CPU_BYTES_PER_US.value


def _gradient_bytes(subject: Subject) -> float:
    fact = joined_by(subject)
    if fact is not None:
        return float(fact.gradient_bytes)
    graph = subject.operators
    return sum(one.size_bytes for one in gradients_of(subject, graph, graph.iterations[0]))


WHATIF = TopK()
