"""Several what-ifs together: applied one after the other, to be simulated once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from skyline.errors import SkylineError
from skyline.graph.graph import Graph
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit, usable_bytes
from skyline.stage_failures import failure
from skyline.whatif.base import Applicability, Grain, Provenance, Scenario, Semantics, Stage, Subject, WhatIf
from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.cost.loader_model import paced_by_workers
from skyline.whatif.loader_setting import present_setting
from skyline.whatif.memory import Memory
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatif_named
from skyline.whatif.subject import NotKnown

logger = logging.getLogger(__name__)

_BEYOND_MODEL = Constant.at(
    0.045,
    "benchmarks/whatif_memory.py: nine in ten single changes of the peak on scripts of spent lists are off by less",
    machine=EPYC,
)
_BEYOND_TRIED = Constant.at(
    0.01,
    "benchmarks/whatif_memory.py: nine in ten peaks of tried changes on scripts of spent lists are off by less",
    machine=EPYC,
)
_MEASURED = ("batch_size",)
"""What-ifs based on measured iterations, which need no recorded operators or kernels."""


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """The scenario of all changes that can be made, and the reasons for those that cannot.

    ``asked`` lists all changes with their values, in the order of application; ``made`` lists those that were
    made.
    """

    scenario: Scenario
    start: Scenario
    asked: tuple[tuple[WhatIf, str], ...]
    made: tuple[tuple[str, str], ...]
    reason: str
    values: tuple[str, ...] = ()
    """For a single what-if: the values that it offers, including the requested one."""

    @property
    def untouched(self) -> bool:
        """True if the graph is the graph of the unchanged script."""
        return self.scenario.graph is self.start.graph

    @property
    def title(self) -> str:
        """All changes in a few words."""
        return " + ".join(whatif.title(value) for whatif, value in self.asked) or "the unchanged script"

    @property
    def words(self) -> tuple[str, str]:
        """The name and value of the only change, or ``combined`` and all changes as they are typed."""
        if len(self.asked) == 1:
            return self.asked[0][0].name, self.asked[0][1]
        return "combined", " ".join(str(Choice(whatif.name, value)) for whatif, value in self.asked)

    @property
    def semantics(self) -> Semantics:
        """The most severe effect among the changes."""
        order = list(Semantics)
        return max((whatif.semantics for whatif, _ in self.asked), key=order.index, default=order[0])


def compose(subject: Subject, choices: Sequence[Choice], *, at_least: Grain = Grain.PHASES) -> Composition:
    """All choices applied together; if a name is given twice, its last value counts.

    The graph is as fine as the choices need, and at least as fine as ``at_least``.

    A choice that is not applicable, or is excluded by another choice, is left out and named in ``reason``.

    Raises:
        UsageError: a what-if does not exist, or does not accept its value.
    """
    values = {choice.name: choice.value for choice in choices}
    asked = sorted(
        ((whatif_named(name), value) for name, value in values.items()),
        key=lambda part: (part[0].stage, part[0].name),
    )
    start = scenario = Scenario.of(subject, max((at_least, *(part[0].grain for part in asked))))
    reasons: list[str] = []
    settled: list[tuple[WhatIf, str]] = []
    made: list[tuple[WhatIf, str]] = []
    detected = [(whatif, given, detected_in(subject, whatif)) for whatif, given in asked]
    possible = [one.name for one, _, found in detected if found.applicable]
    together = {one.name: given or found.default for one, given, found in detected if found.beside(possible)}
    scenario = replace(scenario, choices=together)
    # The what-if about workers sets their pace itself, after all other changes.
    paced, standing = "num_workers" in together, scenario.graph
    for whatif, given, found in detected:
        value = given or found.default
        settled.append((whatif, value))
        reason = found.reason if whatif.name not in together else _excluded(whatif, [one for one, _ in made])
        if reason:
            reasons.append(reason if len(asked) == 1 else f"{whatif.name}: {reason}")
            continue
        made.append((whatif, value))
        if whatif.stage is Stage.LOADING and not paced:
            scenario, paced = _paced(subject, scenario, standing), True
        scenario = _transformed(whatif, scenario, value, subject)
        if whatif.stage is Stage.WORKLOAD:
            standing = scenario.graph
        if scenario.reason:
            reasons.append(scenario.reason)
            scenario = replace(scenario, reason="")
    scenario = _fitted(subject, scenario if paced else _paced(subject, scenario, standing))
    if scenario.reason:
        reasons.append(scenario.reason)
    return Composition(
        scenario,
        start,
        tuple(settled),
        tuple((whatif.name, value) for whatif, value in made),
        "; ".join(reasons),
        _values(detected[0][2], settled[0][1]) if len(detected) == 1 else (),
    )


def detected_in(subject: Subject, whatif: WhatIf) -> Applicability:
    """Applicability of a what-if. If its ``detect`` fails, it does not apply, and the reason says so."""
    by_phases = whatif.stage is Stage.LOADING and whatif.grain is Grain.PHASES
    if not subject.trains and getattr(whatif, "training_only", False):
        return Applicability.no("the script does not train")
    if subject.unrecorded and not by_phases and whatif.name not in _MEASURED:
        return Applicability.no(subject.unrecorded)
    try:
        return whatif.detect(subject)
    except SkylineError:
        raise
    except NotKnown as unknown:
        return Applicability.no(str(unknown))
    except Exception as error:
        logger.info("%s could not be asked", whatif.name, exc_info=True)
        return Applicability.no(failure(error))


def _paced(subject: Subject, scenario: Scenario, standing: Graph) -> Scenario:
    """The scenario with the pace of the loader workers, if the profiled script has any."""
    if subject.profile is None or not present_setting(subject).workers:
        return scenario
    return paced_by_workers(scenario, standing, subject)


def _transformed(whatif: WhatIf, scenario: Scenario, value: str, subject: Subject) -> Scenario:
    try:
        return whatif.transform(scenario, value, subject)
    except SkylineError:
        raise
    except NotKnown as unknown:
        return replace(scenario, reason=str(unknown))
    except Exception as error:
        logger.info("%s could not be made", whatif.name, exc_info=True)
        return replace(scenario, reason=failure(error))


def _values(found: Applicability, asked: str) -> tuple[str, ...]:
    """The offered values in their order; a requested value that is not offered comes last. Numbers are sorted."""
    offered = tuple(dict.fromkeys((*found.values, *((asked,) if asked else ()))))
    if not found.applicable or len(offered) < 2:
        return ()
    return tuple(sorted(offered, key=int)) if all(value.isdecimal() for value in offered) else offered


def _fitted(subject: Subject, scenario: Scenario) -> Scenario:
    """The scenario with the verdict whether it fits into memory, if the changes affect memory."""
    profile = subject.profile
    if profile is None or scenario.memory is None or not scenario.memory_changed:
        return scenario
    verdict = fit(scenario.memory.peak_bytes, usable_bytes(profile))
    scenario = replace(scenario, memory=_never_too_sure(subject, scenario, scenario.memory))
    if verdict is Fit.TOO_LARGE:
        size = scenario.batch_size
        what = f"batch size {size}" if size != profile.batch_size else "it"
        return replace(scenario, reason=f"{what} does not fit into memory")
    if verdict is Fit.UNSURE:
        return replace(scenario, assumptions=(*scenario.assumptions, "it might not fit into memory"))
    return scenario


def _never_too_sure(subject: Subject, scenario: Scenario, memory: Memory) -> Memory:
    """The memory with the error of its models beyond their own ranges; a smaller change is off by less."""
    if scenario.provenance in (Provenance.MEASURED, Provenance.INTERPOLATED):
        return memory
    beyond = _BEYOND_TRIED if scenario.provenance is Provenance.TRIED else _BEYOND_MODEL
    now, then = float(subject.peak.total), memory.peak_bytes.value
    return memory.unsure(min(beyond.value * then, abs(then - now)))


def _excluded(whatif: WhatIf, made: Sequence[WhatIf]) -> str:
    """The reason why it cannot be combined with the changes made so far; empty if it can."""
    for other in made:
        if other.name in whatif.excludes or whatif.name in other.excludes:
            return f"cannot be made together with {other.name}"
    return ""
