"""Definition of a what-if: a change to the graph and the memory, with its assumptions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from skyline.whatif.scenario import Provenance, Scenario
from skyline.whatif.subject import Grain, Subject

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

    def title(self, value: str) -> str:
        """The change in a few words, for this value."""
        return self.words
