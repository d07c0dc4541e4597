"""What if replicas exchanged their gradients in 16 bits."""

from __future__ import annotations

import numpy as np

from skyline.errors import UsageError
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.job.exchanges import kind_of
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.parallel.ddp_bucket import exchange_assumptions
from skyline.whatif.catalogue.parallel.gradient_exchange import (
    COPY_BACK,
    cores_are_shared,
    exchange_of,
    in_half,
    joined_by,
)

_CASTS_OVER_COPY = Interval(2.0, 1.0, 3.0)
"""Ratio of the casts to a copy of 32 bits (8 bytes a number): to 16 bits (6), divided (4), and back (6)."""
_ASSUMED_COPY_US_PER_BYTE = 4e-4
"""The assumed time to copy a byte of the gradients, if 4 bytes are read and written at 5 GB/s."""
_HALF_SUM_US = {"gloo": Interval(0.012, 0.004, 0.016)}
"""Additional time to add a number in 16 bits instead of 32, in µs: gloo converts each one by itself."""
_NOTHING = Interval(0.0, 0.0, 0.0)
_KERNEL_FACTOR = Interval(0.55, 0.5, 0.9)
"""The factor of an all-reduce between GPUs: half the data, the same messages, and casts that take little."""


@dataclass(frozen=True, slots=True)
class DdpCompression(UsualWhatIf):
    """Halves the data of an all-reduce, and adds the casts."""

    name: str = "ddp_compression"
    training_only: bool = True
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.COMMUNICATION

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"exchange gradients in {value or '16 bits'}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if replicas exchange gradients in 32 bits."""
        if subject.recording is not None:
            return _detect_between_gpus(subject)
        fact = exchange_of(subject)
        if isinstance(fact, str):
            return Applicability.no(fact)
        if fact.comm_hook:
            return Applicability.no(f"a communication hook is registered already: {fact.comm_hook}")
        if subject.on_gpu:
            return _detect_between_gpus(subject)
        # PyTorch has the hook for bfloat16 with NCCL only.
        values = ("bf16", "fp16") if fact.backend == "nccl" else ("fp16",)
        return Applicability(True, values=values, default=values[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten the all-reduces of all buckets, or lengthen them if casts and sums cost more than is saved."""
        if value not in self.detect(subject).values:
            raise UsageError(f"{self.name}={value} is not possible", hint=f"With gloo: {self.name}=fp16.")
        if subject.on_gpu:
            return _transform_in(scenario, subject)
        fact = joined_by(subject)
        assert fact is not None
        summing = _HALF_SUM_US.get(fact.backend, _NOTHING)
        copying = _copy_us_per_byte(subject)
        shared = cores_are_shared(subject)
        cases = (
            in_half(
                subject,
                scenario.graph,
                shared=shared,
                casting_us_per_byte=copying * casts,
                summing_us_per_number=sums,
            )
            for casts, sums in (
                (_CASTS_OVER_COPY.value, summing.value),
                (_CASTS_OVER_COPY.low, summing.low),
                (_CASTS_OVER_COPY.high, summing.high),
            )
        )
        return scenario.between(
            subject,
            *cases,
            assumptions=(*exchange_assumptions(subject), "no gradient is too small or too large for 16 bits"),
        )


def _copy_us_per_byte(baseline: Subject) -> float:
    """The time in µs to copy a byte of the gradients (read and write), from the recorded copies out of buckets."""
    fact = joined_by(baseline)
    graph = baseline.operators
    copied_us = float(graph.durations[select(graph, name=COPY_BACK)].sum()) / baseline.steps
    if fact is None or copied_us <= 0 or fact.gradient_bytes <= 0:
        return _ASSUMED_COPY_US_PER_BYTE
    return copied_us / fact.gradient_bytes


def _detect_between_gpus(subject: Subject) -> Applicability:
    graph, recording = subject.graph_of(Grain.OPERATORS), subject.recording
    if not _all_reduces(graph):
        return Applicability.no("no all-reduce between GPUs was recorded")
    types = set[str]()
    if recording is not None:
        rows: list[int] = np.unique(recording.trace.collectives.element_type).tolist()
        types = {recording.trace.strings[row] for row in rows}
    narrow = any(name in ("Half", "BFloat16", "c10::Half", "c10::BFloat16") for name in types)
    if narrow or any("f16" in name.lower() or "half" in name.lower() for name in _all_reduces(graph)):
        return Applicability.no("gradients are exchanged in 16 bits already")
    return Applicability(True, values=("bf16", "fp16"), default="bf16")


def _transform_in(scenario: Scenario, subject: Subject) -> Scenario:
    graph = scenario.graph
    chosen = select(graph, kind=TaskKind.KERNEL, phase=Phase.COMMUNICATION, name=_all_reduces(graph))
    cases = (scale(graph, chosen, factor) for factor in _KERNEL_FACTOR.ends)
    return scenario.between(
        subject,
        *cases,
        assumptions=(
            "every all-reduce carries gradients, and none waits for other ranks",
            "NCCL is 2.10 or later, on CUDA 11 or later",
        ),
        provenance=Provenance.ASSUMED,
    )


def _all_reduces(graph: Graph) -> tuple[str, ...]:
    chosen = select(graph, kind=TaskKind.KERNEL, phase=Phase.COMMUNICATION)
    codes: list[int] = np.unique(graph.tasks.name[chosen]).tolist()
    return tuple(
        name for name in (graph.tasks.names[code] for code in codes) if kind_of(name) == "all_reduce"
    )


WHATIF = DdpCompression()
