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
from skyline.whatif.memory import Memory, MemoryChange
from skyline.whatif.replaced_work import ReplacedWork
from skyline.whatif.subject import Grain, Subject


class Provenance(str, Enum):
    """Where an answer comes from, from the strongest to the weakest."""

    MEASURED = "measured"
    """This script ran with this change, on this machine."""
    INTERPOLATED = "interpolated"
    """Interpolated between runs of this script with less and with more of this change."""
    TRIED = "tried"
    """Parts of this script ran with this change, on this machine; a simulation combines them."""
    MODELLED = "modelled"
    """Follows from the recorded work by a model with figures from elsewhere."""
    ASSUMED = "assumed"
    """A range from experience: a fact that a model needs is not known, or there is no model."""

    def with_part(self, other: Provenance) -> Provenance:
        """The provenance of an answer with another part: the weaker of both."""
        order = list(Provenance)
        return max(self, other, key=order.index)


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """The changed graph and the changed memory, with the uncertainty of both.

    ``memory`` is None if it is not known; ``memory_changed`` is True if a change affects it. ``below_ms`` and
    ``above_ms`` are how far the iteration may lie below and above the simulated time of the graph because of
    the changes alone. ``reason`` is set if a change turned out to be impossible.
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
    """The ratio of the samples in an iteration to those of the unchanged script, apart from the batch size."""
    parts: int = 1
    """The number of equal parts of a batch that go through the model one after the other."""
    product_format: str = ""
    """The number format that an earlier change gave to the products of both passes; empty if unchanged."""
    one_off_s: Interval | None = None
    """The one-off cost of the changes, such as compiling; None if negligible."""
    occasional: Interval = field(default_factory=lambda: Interval.exact(0.0))
    """The part of each iteration of the graph, in ms, that stands for work that only a few iterations do. Its
    range is included in the range of the iteration."""
    provenance: Provenance = Provenance.MEASURED
    """Where the answer comes from: the weakest of the changes made so far."""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values of all changes that are asked together and can be made, by name. Some changes depend on others."""
    replaced: Mapping[int, ReplacedWork] = field(default_factory=dict[int, ReplacedWork])
    """The work that earlier changes put in the place of operators and tried, by row of the recording."""

    @classmethod
    def of(cls, subject: Subject, grain: Grain = Grain.PHASES) -> Scenario:
        """The unchanged script."""
        # The unchanged script was measured, unless it was predicted itself.
        start = Provenance.MEASURED if subject.profile is None or subject.has_run else Provenance.MODELLED
        return cls(subject.graph_of(grain), subject.memory, subject.batch_size, provenance=start)

    @property
    def occasional_ms(self) -> float:
        """The part of each iteration, in ms, that stands for work that only a few iterations do."""
        return self.occasional.value

    def batch_factor(self, subject: Subject) -> float:
        """The ratio of the samples in an iteration to those in the recorded one."""
        recorded = subject.batch_size
        return self.batch_size / recorded if self.batch_size and recorded else 1.0

    def pass_factor(self, subject: Subject) -> float:
        """The ratio of the samples in one pass through the model to those in a recorded pass.

        A change of the model's operators finds them at this size: as large as in a batch of one part.
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
        """This scenario with another graph and memory, and with their uncertainty added as an independent one.

        ``one_off_s`` and ``occasional`` are added to those of earlier changes. The range of ``occasional``
        counts for the iteration, so it must not be included in ``below_ms`` and ``above_ms``.
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
        """This scenario with the graph ``likely``, and with bounds from simulations of its best and its worst case.

        ``unsure`` is the relative uncertainty of its measurements, independent of these bounds.
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
    """The sum of two amounts with independent errors."""
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
    """The rounding differs."""
    CONVERGENCE = "convergence"
    """The course of the training differs."""
    MODEL = "model"
    """Another model is trained, such as one with fewer parameters."""


class Stage(int, Enum):
    """The order in which what-ifs are applied together: first those that change work, last those that move it."""

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
    """The dependencies between tasks change."""
    LOADING = 8
    """Work moves to other processes and shares the cores. It comes last because it must know all other work."""


@dataclass(frozen=True, slots=True)
class Applicability:
    """Applicability of a what-if to a script: the reason if it does not apply, and the values to offer.

    ``default`` is the value to use if none is given. ``only_with`` is set if the what-if makes no sense by
    itself: one of the named what-ifs has to be asked together with it.
    """

    applicable: bool
    reason: str = ""
    values: tuple[str, ...] = ()
    default: str = ""
    only_with: tuple[str, ...] = ()

    @classmethod
    def no(cls, reason: str) -> Applicability:
        """Not applicable, with the reason."""
        return cls(False, reason)

    def beside(self, names: Collection[str]) -> bool:
        """True if the what-if makes sense in a question that also asks for these what-ifs."""
        return self.applicable or any(name in names for name in self.only_with)


class WhatIf(Protocol):
    """One change that can be asked about. A module of the catalogue defines it and binds it to ``WHATIF``.

    It can be asked about measured and predicted profiles, and about traces of PyTorch's profiler. If it needs
    a fact that a trace does not have, ``detect`` says so.
    """

    @property
    def name(self) -> str:
        """The name as it is typed: ``num_workers``."""
        ...

    @property
    def semantics(self) -> Semantics:
        """The effect of the change on the training itself."""
        ...

    @property
    def stage(self) -> Stage:
        """The position in the order in which several what-ifs are applied."""
        ...

    @property
    def grain(self) -> Grain:
        """The grain of the graph that it reads."""
        ...

    @property
    def excludes(self) -> tuple[str, ...]:
        """Names of what-ifs that cannot be combined with it; it is enough that one of the two names the other."""
        ...

    def title(self, value: str) -> str:
        """The change in a few words, for this value."""
        ...

    def detect(self, subject: Subject) -> Applicability:
        """The applicability of the change to this script."""
        ...

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Make the change. Only called if it is applicable, with the given value or the default.

        Other changes may have been made before: task indices refer to ``scenario.graph``, and the ``origin``
        of a task tells from which record it was made.

        Raises:
            UsageError: the what-if does not accept the value.
        """
        ...


@dataclass(frozen=True, slots=True)
class UsualWhatIf:
    """The base class of what-ifs, with the usual attributes: exact, on the grain of operators, excluding none."""

    name: str = ""
    words: str = ""
    """The title for every value; override ``title`` if it should contain the value."""
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.ALGORITHM
    grain: Grain = Grain.OPERATORS
    excludes: tuple[str, ...] = ()
    training_only: bool = False
    """True if the change concerns backward passes, optimizers or gradients. It is not offered for scripts
    that do not train."""

    def title(self, value: str) -> str:
        """The change in a few words, for this value."""
        return self.words
