"""Definition of a what-if: a change to the graph and the memory, with its assumptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from enum import Enum
from math import hypot
from typing import Protocol

from skyline.graph.graph import Graph
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.subject import Grain, Memory, MemoryChange, Subject


class Provenance(str, Enum):
    """Where an answer comes from, from the strongest to the weakest."""

    MEASURED = "measured"
    """This script ran with this change, on this machine."""
    INTERPOLATED = "interpolated"
    """Read between runs of this script with less and with more of this change."""
    TRIED = "tried"
    """Parts of this script ran with this change, on this machine; a simulation combines them."""
    MODELLED = "modelled"
    """Follows from the recorded work by a model with figures from elsewhere."""
    ASSUMED = "assumed"
    """A range from experience: a fact that a model needs is not known, or there is no model."""

    def with_part(self, other: Provenance) -> Provenance:
        """Of an answer with another part: the weaker of both."""
        order = list(Provenance)
        return max(self, other, key=order.index)


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """The changed graph and the changed memory, with how sure both are.

    ``memory`` is None where it is not known, and ``memory_changed`` says whether it would be another one.
    ``below_ms`` and ``above_ms`` are how far the iteration may lie below and above what the graph simulates to, on
    account of the changes alone. ``reason`` is set where a change turned out to be impossible.
    """

    graph: Graph
    memory: Memory | None
    batch_size: int | None
    below_ms: float = 0.0
    above_ms: float = 0.0
    assumptions: tuple[str, ...] = ()
    extrapolated: bool = False
    reason: str = ""
    memory_changed: bool = False
    samples_factor: float = 1.0
    """Samples in an iteration over those of the unchanged script, the batch size apart."""
    parts: int = 1
    """Equal parts in which each batch goes through the model, one after the other."""
    product_format: str = ""
    """The number format that a change made before gave to the products of both passes; empty: unchanged."""
    one_off_s: Interval | None = None
    """One-off cost of the changes, not in each iteration, such as compiling; None for a negligible one."""
    occasional: Interval = field(default_factory=lambda: Interval.exact(0.0))
    """The share in each iteration of the graph, in ms, of work that only few of them do; its range is in that of the
    iteration as well."""
    provenance: Provenance = Provenance.MEASURED
    """Where the answer comes from: the weakest of the changes made so far."""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """All that is asked together and can be made, by name, with its values: some changes depend on others."""

    @classmethod
    def of(cls, subject: Subject, grain: Grain = Grain.PHASES) -> Scenario:
        """The unchanged script."""
        # The unchanged script was measured, unless it was predicted itself.
        start = Provenance.MEASURED if subject.profile is None or subject.has_run else Provenance.MODELLED
        return cls(subject.graph_of(grain), subject.memory, subject.batch_size, provenance=start)

    @property
    def occasional_ms(self) -> float:
        """The share in each iteration of work that only few of them do."""
        return self.occasional.value

    def batch_factor(self, subject: Subject) -> float:
        """The samples of an iteration over those of the recorded one."""
        recorded = subject.batch_size
        return self.batch_size / recorded if self.batch_size and recorded else 1.0

    def pass_factor(self, subject: Subject) -> float:
        """The samples of one pass through the model over those of a recorded one.

        A change of the model's operators meets them at this size: they are as large as in a batch of one part.
        """
        return self.batch_factor(subject) / self.parts

    def changed(
        self,
        graph: Graph,
        *,
        below_ms: float = 0.0,
        above_ms: float = 0.0,
        assumptions: tuple[str, ...] = (),
        memory: MemoryChange | None = None,
        one_off_s: Interval | None = None,
        occasional: Interval | None = None,
        provenance: Provenance = Provenance.MODELLED,
    ) -> Scenario:
        """With another graph and memory, and the uncertainty that comes with it added as an independent one.

        ``one_off_s`` and ``occasional`` come on top of those of earlier changes. The range of ``occasional`` is one of
        the iteration, and does not belong in ``below_ms`` and ``above_ms``.
        """
        before = self.memory
        now_and_then = occasional or Interval.exact(0.0)
        rarely_below_ms, rarely_above_ms = _spreads(now_and_then)
        return replace(
            self,
            graph=graph,
            below_ms=hypot(self.below_ms, below_ms, rarely_below_ms),
            above_ms=hypot(self.above_ms, above_ms, rarely_above_ms),
            assumptions=(*self.assumptions, *(one for one in assumptions if one not in self.assumptions)),
            memory=before if before is None or memory is None else memory(before),
            memory_changed=self.memory_changed or memory is not None,
            one_off_s=self.one_off_s.plus(one_off_s)
            if self.one_off_s and one_off_s
            else self.one_off_s or one_off_s,
            occasional=_independently(self.occasional, now_and_then),
            provenance=self.provenance.with_part(provenance),
        )

    def between(
        self,
        subject: Subject,
        likely: Graph,
        least: Graph,
        most: Graph,
        *,
        assumptions: tuple[str, ...] = (),
        memory: MemoryChange | None = None,
        one_off_s: Interval | None = None,
        provenance: Provenance = Provenance.MODELLED,
        unsure: float = 0.0,
    ) -> Scenario:
        """With another graph, whose bounds come from its best and its worst case, both simulated.

        ``unsure`` is the share by which measurements of it are unsure, independently of these.
        """
        now = subject.step_ms(likely)
        return self.changed(
            likely,
            below_ms=hypot(max(0.0, now - subject.step_ms(least)), unsure * now),
            above_ms=hypot(max(0.0, subject.step_ms(most) - now), unsure * now),
            assumptions=assumptions,
            memory=memory,
            one_off_s=one_off_s,
            provenance=provenance,
        )


def _spreads(of: Interval) -> tuple[float, float]:
    """The distance from the low end to the value, and from there to the high end."""
    return of.value - of.low, of.high - of.value


def _independently(first: Interval, second: Interval) -> Interval:
    """The sum of two amounts whose errors have nothing to do with each other."""
    value = first.value + second.value
    below, above = (hypot(*both) for both in zip(_spreads(first), _spreads(second), strict=True))
    return Interval(value, value - below, value + above)


def samples_at(baseline: Subject, batch_size: int | None) -> float | None:
    """Samples per iteration at another batch size (None: the script's own), assumed proportional."""
    samples, base = baseline.samples, baseline.batch_size
    if samples is None or batch_size is None or not base:
        return samples
    return samples * batch_size / base


def throughput_at(baseline: Subject, at: Scenario | int | None, iteration_ms: Interval) -> Interval | None:
    """Samples per second of a scenario or at a batch size; None if the samples per iteration are unknown."""
    if isinstance(at, Scenario):
        samples = samples_at(baseline, at.batch_size)
        samples = samples * at.samples_factor if samples else None
    else:
        samples = samples_at(baseline, at)
    return iteration_ms.inverse(samples * 1e3) if samples else None


__all__ = [
    "Applicability",
    "Grain",
    "Provenance",
    "Scenario",
    "Semantics",
    "Stage",
    "Subject",
    "UsualWhatIf",
    "WhatIf",
]


class Semantics(str, Enum):
    """The effect of the change on the training itself."""

    EXACT = "exact"
    """The same numbers come out, up to the order of floating-point sums."""
    NUMERICS = "numerics"
    """Other rounding."""
    CONVERGENCE = "convergence"
    """Another course of training."""
    MODEL = "model"
    """Another model is trained, such as one with fewer parameters."""


class Stage(int, Enum):
    """In which order what-ifs are applied together: first what changes the work, last what moves it."""

    WORKLOAD = 0
    """Number and size of the samples: everything scales with it."""
    ALGORITHM = 1
    """Which operators run, and how often."""
    PRECISION = 2
    LAYOUT = 3
    """The layout of operators' tensors in memory, and the choice of one of several implementations."""
    FUSION = 4
    """Operators and launches become fewer."""
    OPTIMIZER = 5
    COMMUNICATION = 6
    WAITING = 7
    """Who waits for whom."""
    LOADING = 8
    """Work moves to other processes and shares the cores: it must know all other work."""


@dataclass(frozen=True, slots=True)
class Applicability:
    """Applicability of a what-if to a script: the reason if there is none, and the values to offer.

    ``default`` is the value that is meant where none is given. ``only_with`` names what-ifs of which one has to be
    asked together with it, where it does not make sense by itself.
    """

    applicable: bool
    reason: str = ""
    values: tuple[str, ...] = ()
    default: str = ""
    only_with: tuple[str, ...] = ()

    @classmethod
    def no(cls, reason: str) -> Applicability:
        """Not applicable, and why."""
        return cls(False, reason)

    def beside(self, names: Collection[str]) -> bool:
        """True if it makes sense in a question that asks for these what-ifs."""
        return self.applicable or any(name in names for name in self.only_with)


class WhatIf(Protocol):
    """One change that can be asked about. A module of the catalogue defines it and binds it to ``WHATIF``.

    It is asked about profiles, measured and predicted, and about the traces of PyTorch's profiler; where it needs to
    know what a trace does not tell, ``detect`` says so.
    """

    @property
    def name(self) -> str:
        """As it is typed: ``num_workers``."""
        ...

    @property
    def semantics(self) -> Semantics:
        """The effect of the change on the training itself."""
        ...

    @property
    def stage(self) -> Stage:
        """When it is applied, of several."""
        ...

    @property
    def grain(self) -> Grain:
        """The grain of the graph that it reads."""
        ...

    @property
    def excludes(self) -> tuple[str, ...]:
        """Names of what-ifs that cannot be made together with it; it is enough that one of two says so."""
        ...

    def title(self, value: str) -> str:
        """The change in a few words, for this value."""
        ...

    def detect(self, subject: Subject) -> Applicability:
        """True if the change makes sense for this script."""
        ...

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Make the change; only called where it is applicable, with the value given or the default one.

        Other changes may have been made before: the indices of tasks are those of ``scenario.graph``, and of
        what a task was made of its ``origin`` tells.

        Raises:
            UsageError: the value is not one that this what-if takes.
        """
        ...


@dataclass(frozen=True, slots=True)
class UsualWhatIf:
    """A what-if with the usual attributes, for what-ifs to inherit from: exact, by operators, excluding none."""

    name: str = ""
    words: str = ""
    """The title for every value; override ``title`` where the value belongs in it."""
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.ALGORITHM
    grain: Grain = Grain.OPERATORS
    excludes: tuple[str, ...] = ()
    training_only: bool = False
    """True if the change is one of backward passes, optimizers or gradients: others do not ask for it."""

    def title(self, value: str) -> str:
        """The change in a few words, for this value."""
        return self.words
