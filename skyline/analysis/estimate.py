"""Answers questions: batch size and what-ifs, simulated together."""

from __future__ import annotations

import logging
from dataclasses import replace
from math import hypot

from skyline.analysis.analyse import Analysis
from skyline.analysis.throughput import throughput_at
from skyline.attempt import failure
from skyline.errors import SkylineError
from skyline.interval import Interval
from skyline.whatif.base import Applicability
from skyline.whatif.baseline import Baseline
from skyline.whatif.composition import Composition, compose, detected_in
from skyline.whatif.estimate import Estimate, break_even, speedup_range
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named, whatifs
from skyline.whatif.scenario import Scenario

logger = logging.getLogger(__name__)

BATCH_SIZE = "batch_size"
_LEAST_SHARE = 0.05
"""However unsure, no iteration is taken to shrink below this share of its estimate: time is positive."""


def estimate(analysis: Analysis, question: Question) -> Estimate:
    """What all parts of the question together would bring; their effects are simulated, never multiplied.

    A part that is not applicable, or that fails, is left out, named in ``reason``, and makes the whole not applicable.

    Raises:
        UsageError: a what-if that does not exist, or a value it does not take.
    """
    choices = question.choices
    if question.batch_size is not None:
        choices = (*choices, Choice(BATCH_SIZE, str(question.batch_size)))
    return _simulated(analysis, compose(analysis.baseline, choices))


def estimate_or_reason(analysis: Analysis, question: Question) -> Estimate:
    """The same for a question that nobody typed: values that make no sense make it not applicable."""
    try:
        return estimate(analysis, question)
    except SkylineError as error:
        unchanged = compose(analysis.baseline, ())
        name, _, value = " ".join(map(str, question.choices)).partition("=")
        failed = _answer(analysis, replace(unchanged, reason=error.message))
        return replace(failed, name=name if len(question.choices) == 1 else "combined", value=value)


def rank(analysis: Analysis) -> tuple[Estimate, ...]:
    """Every known what-if singly, at the value it suggests: best gain first, inapplicable ones last."""
    estimates = [estimate_or_reason(analysis, Question(choices=(Choice(name),))) for name in whatifs()]
    return tuple(sorted(estimates, key=lambda answer: (not answer.applicable, -answer.speedup, answer.name)))


def applicability(analysis: Analysis, name: str) -> Applicability:
    """Whether a what-if makes sense for this profile, and which values to offer."""
    return detected_in(analysis.baseline, whatif_named(name))


def _simulated(analysis: Analysis, composed: Composition) -> Estimate:
    try:
        return _answer(analysis, composed)
    except SkylineError:
        raise
    except Exception as error:
        logger.info("%s could not be simulated", composed.title, exc_info=True)
        reasons = filter(None, (composed.reason, f"it could not be simulated: {failure(error)}"))
        return _answer(analysis, replace(composed, scenario=composed.start, reason="; ".join(reasons)))


def _answer(analysis: Analysis, composed: Composition) -> Estimate:
    start, scenario = analysis.baseline, composed.scenario
    iteration_ms = _iteration_ms(start, composed)
    throughput = throughput_at(start, scenario, iteration_ms)
    before = throughput_at(start, composed.start, start.iteration_ms)
    if throughput is not None and before is not None:
        speedup = throughput.value / before.value
    else:
        speedup = start.iteration_ms.value / iteration_ms.value
    rewrite, rewrite_reason = analysis.rewrites.availability(composed.made)
    name, value = composed.words
    change_ms = _change_ms(start, scenario, iteration_ms.value)
    return Estimate(
        name=name,
        value=value,
        title=composed.title,
        iteration_ms=iteration_ms,
        change_ms=change_ms,
        throughput=throughput,
        peak_bytes=(scenario.memory or start.memory).peak_bytes,
        speedup=speedup,
        applicable=not composed.reason,
        reason=composed.reason or None,
        semantics=composed.semantics.value,
        basis=composed.basis(start).value,
        assumptions=scenario.assumptions,
        rewrite=rewrite,
        rewrite_reason=rewrite_reason,
        batch_size=scenario.batch_size,
        extrapolated=scenario.extrapolated,
        one_off_s=scenario.one_off_s,
        break_even_iterations=break_even(scenario.one_off_s, change_ms),
        occasional_ms=scenario.occasional_ms,
        values=composed.values,
        speedup_range=speedup_range(speedup, start.iteration_ms.value, change_ms),
    )


def _iteration_ms(start: Baseline, composed: Composition) -> Interval:
    """The simulated ratio to the baseline on the measured time, with both uncertainties as independent ones."""
    if composed.untouched:
        return start.iteration_ms
    scenario = composed.scenario
    ratio = start.step_ms(scenario.graph) / start.step_ms(composed.start.graph)
    value = start.iteration_ms.value * ratio
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
