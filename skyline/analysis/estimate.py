"""Answers questions: batch size and what-ifs, simulated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from math import hypot
from typing import TypeVar

from skyline.analysis.analyse import Analysis
from skyline.analysis.rewrites import Availability
from skyline.analysis.throughput import throughput_at
from skyline.interval import Interval
from skyline.simulate.engine import simulate
from skyline.whatif.base import Applicability, Basis, Scenario, Semantics, WhatIf
from skyline.whatif.baseline import Baseline
from skyline.whatif.estimate import Estimate
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named, whatifs

_BATCH_SIZE = "batch_size"
_LEAST_SHARE = 0.05
"""However unsure, no iteration is taken to shrink below this share of its estimate: time is positive."""
_Kind = TypeVar("_Kind", bound=Enum)


def estimate(analysis: Analysis, question: Question) -> Estimate:
    """What all parts of the question together would bring; their effects are simulated, never multiplied.

    A part that is not applicable is left out, named in ``reason``, and makes the whole not applicable.

    Raises:
        UsageError: a what-if that does not exist, or a value it does not take.
    """
    start = analysis.baseline
    asked = _asked(question)
    scenario = Scenario(start.outline, Interval.exact(float(start.memory.total)), start.profile.batch_size)
    reasons: list[str] = []
    settled: list[tuple[WhatIf, str]] = []
    changes: list[tuple[str, str]] = []
    for whatif, value in asked:
        found = whatif.detect(start)
        chosen = value or found.default
        settled.append((whatif, chosen))
        if not found.applicable:
            reasons.append(found.reason if len(asked) == 1 else f"{whatif.name}: {found.reason}")
            continue
        changes.append((whatif.name, chosen))
        scenario = whatif.transform(scenario, chosen, start)
        if scenario.reason:
            reasons.append(scenario.reason)
            scenario = replace(scenario, reason="")
    rewrite = analysis.rewrites.availability(changes)
    return _answer(analysis, scenario, settled, rewrite, "; ".join(reasons) or None)


def rank(analysis: Analysis) -> tuple[Estimate, ...]:
    """Every known what-if singly, at the value it suggests: best gain first, inapplicable ones last."""
    estimates = [estimate(analysis, Question(choices=(Choice(name),))) for name in whatifs()]
    return tuple(sorted(estimates, key=lambda answer: (not answer.applicable, -answer.speedup, answer.name)))


def applicability(analysis: Analysis, name: str) -> Applicability:
    """Whether a what-if makes sense for this profile, and which values to offer."""
    return whatif_named(name).detect(analysis.baseline)


def _asked(question: Question) -> list[tuple[WhatIf, str]]:
    """The parts of a question in the order in which they are applied; the last value given for a name counts."""
    values = {choice.name: choice.value for choice in question.choices}
    if question.batch_size is not None:
        values[_BATCH_SIZE] = str(question.batch_size)
    return sorted(
        ((whatif_named(name), value) for name, value in values.items()),
        key=lambda part: (part[0].stage, part[0].name),
    )


def _answer(
    analysis: Analysis,
    scenario: Scenario,
    settled: list[tuple[WhatIf, str]],
    rewrite: Availability,
    reason: str | None,
) -> Estimate:
    start = analysis.baseline
    iteration_ms = _iteration_ms(start, scenario)
    throughput = throughput_at(start, scenario.batch_size, iteration_ms)
    before = throughput_at(start, start.profile.batch_size, start.iteration_ms)
    if throughput is not None and before is not None:
        speedup = throughput.value / before.value
    else:
        speedup = start.iteration_ms.value / iteration_ms.value
    single = len(settled) == 1
    name, value = (settled[0][0].name, settled[0][1]) if single else ("combined", _words(settled))
    return Estimate(
        name=name,
        value=value,
        title=" + ".join(whatif.title(chosen) for whatif, chosen in settled) or "the script as it stands",
        iteration_ms=iteration_ms,
        change_ms=_change_ms(start, scenario, iteration_ms.value),
        throughput=throughput,
        peak_bytes=scenario.peak_bytes,
        speedup=speedup,
        applicable=reason is None,
        reason=reason,
        semantics=_furthest(Semantics, [whatif.semantics for whatif, _ in settled]).value,
        basis=_furthest(Basis, [whatif.basis(start) for whatif, _ in settled]).value,
        assumptions=scenario.assumptions,
        rewrite=rewrite[0],
        rewrite_reason=rewrite[1],
        batch_size=scenario.batch_size,
        extrapolated=scenario.extrapolated,
    )


def _iteration_ms(start: Baseline, scenario: Scenario) -> Interval:
    """The simulated ratio to the baseline on the measured time, with both uncertainties as independent ones."""
    if scenario.graph is start.outline:
        return start.iteration_ms
    simulated = simulate(scenario.graph)
    # Stitched graphs run in during their first half; a graph of the recorded iterations is steady after one.
    run_in = max(1, len(scenario.graph.iterations) // 2) if len(scenario.graph.structure.lanes) > 1 else 1
    value = start.iteration_ms.value * simulated.iteration_ms(start.lane, skip=run_in) / start.simulated_ms
    ratio = value / start.iteration_ms.value
    below = hypot(scenario.below_ms, ratio * (start.iteration_ms.value - start.iteration_ms.low))
    above = hypot(scenario.above_ms, ratio * (start.iteration_ms.high - start.iteration_ms.value))
    return Interval(value, max(_LEAST_SHARE * value, value - below), value + above)


def _change_ms(start: Baseline, scenario: Scenario, iteration_ms: float) -> Interval:
    """The change alone: of the baseline's uncertainty it shares what it takes of the iteration."""
    change = iteration_ms - start.iteration_ms.value
    share = abs(change) / start.iteration_ms.value
    below = hypot(scenario.below_ms, share * (start.iteration_ms.value - start.iteration_ms.low))
    above = hypot(scenario.above_ms, share * (start.iteration_ms.high - start.iteration_ms.value))
    return Interval(change, change - below, change + above)


def _words(settled: list[tuple[WhatIf, str]]) -> str:
    return " ".join(str(Choice(whatif.name, chosen)) for whatif, chosen in settled)


def _furthest(kind: type[_Kind], given: Sequence[_Kind]) -> _Kind:
    """Of the kinds, which are listed from the mildest to the gravest, the gravest that is given."""
    order = list(kind)
    return max(given, key=order.index, default=order[0])
