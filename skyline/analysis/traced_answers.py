"""Answers questions about a recording: what-ifs singly and together, each by a simulation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Literal

from skyline.attempt import failure
from skyline.errors import SkylineError, UsageError
from skyline.interval import Interval
from skyline.units import format_share
from skyline.whatif.composition import Composition, compose
from skyline.whatif.estimate import break_even, speedup_range
from skyline.whatif.question import Choice
from skyline.whatif.recording import Recording
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import NEEDS_PROFILE
from skyline.whatif.trace_facts import peak_bytes

logger = logging.getLogger(__name__)

DOUBTFUL_REPLAY = 0.05
"""A replay further off than this is said beside every answer."""
REFUSED_REPLAY = 0.10
"""A model that does not reproduce what was measured says nothing about what was not."""
_LEAST_SHARE = 0.05
"""However unsure, no step is taken to shrink below this share of its estimate: time is positive."""
_NEVER_LESS_SURE = 0.1
"""No change that was only simulated is surer than to a tenth of itself."""


@dataclass(frozen=True, slots=True)
class TracedEstimate:
    """What one what-if, or a combination, would bring: as ``Estimate``, with null for what a trace does not tell."""

    name: str
    value: str
    title: str
    iteration_ms: Interval
    change_ms: Interval
    throughput: None
    """The number of samples in a step is not known from a trace."""
    peak_bytes: Interval | None
    speedup: float
    applicable: bool
    reason: str | None
    semantics: Literal["exact", "numerics", "convergence"]
    basis: Literal["cpu-measured", "gpu-trace-pair", "model-only"]
    assumptions: tuple[str, ...]
    rewrite: Literal["available", "refused", "none"] = "none"
    rewrite_reason: str | None = "a trace names no source to rewrite"
    batch_size: None = None
    extrapolated: bool = False
    one_off_s: Interval | None = None
    break_even_iterations: int | None = None
    occasional_ms: float = 0.0
    values: tuple[str, ...] = ()
    speedup_range: Interval | None = None
    curve: None = None
    present: None = None
    removal: Literal["none"] = "none"
    removal_reason: None = None
    """Nor is the batch size."""


def rank_traced(recording: Recording) -> tuple[TracedEstimate, ...]:
    """Every what-if that can be asked of a recording, singly: best gain first, inapplicable ones last."""
    answers = [estimate_traced(recording, (Choice(name),)) for name in whatifs()]
    answers = [one for one in answers if one.reason != NEEDS_PROFILE]
    return tuple(sorted(answers, key=lambda one: (not one.applicable, -one.speedup, one.name)))


def check_choices(choices: Sequence[Choice]) -> None:
    """Raises UsageError for a what-if that nobody knows, before anything is read for it."""
    known = whatifs()
    for place, choice in enumerate(choices):
        if choice.name not in known:
            raise UsageError(
                f"there is no what-if {choice.name!r}", hint="Known: " + ", ".join(sorted(known)) + "."
            )
        if any(choice.name == other.name for other in choices[:place]):
            raise UsageError(f"{choice.name} is asked for twice", hint="Name each what-if once.")


def estimate_traced(recording: Recording, choices: Sequence[Choice]) -> TracedEstimate:
    """What all choices together would bring; their effects are simulated, never multiplied.

    Raises:
        UsageError: a value that a what-if does not take.
    """
    composed = compose(recording, choices)
    reason = composed.reason or None
    if recording.replay_error > REFUSED_REPLAY:
        error = format_share(recording.replay_error)
        reason = (
            f"simulated as recorded, a step comes out {error} off: the model does not hold for this trace"
        )
        composed = replace(composed, scenario=composed.start)
    try:
        return _answer(recording, composed, reason)
    except SkylineError:
        raise
    except Exception as error:
        logger.info("%s could not be simulated", composed.title, exc_info=True)
        reasons = filter(None, (reason, f"it could not be simulated: {failure(error)}"))
        return _answer(recording, replace(composed, scenario=composed.start), "; ".join(reasons))


def _answer(recording: Recording, composed: Composition, reason: str | None) -> TracedEstimate:
    changed = composed.scenario
    now = recording.running_ms
    untouched = composed.untouched or recording.settled_ms <= 0
    ratio = 1.0 if untouched else recording.step_ms(changed.graph) / recording.settled_ms
    value = ratio * now.value
    # The scatter of the steps is there with the change and without it; of the change it is that of its share.
    doubt = max(recording.replay_error, _NEVER_LESS_SURE) * abs(value - now.value)
    below, above = hypot(changed.below_ms, doubt), hypot(changed.above_ms, doubt)
    whole = Interval(
        value,
        max(_LEAST_SHARE * value, value - hypot(below, ratio * (now.value - now.low))),
        value + hypot(above, ratio * (now.high - now.value)),
    )
    share = abs(1 - ratio)
    change = Interval(
        value - now.value,
        max(-now.value, value - now.value - hypot(below, share * (now.value - now.low))),
        value - now.value + hypot(above, share * (now.high - now.value)),
    )
    peak = peak_bytes(recording)
    name, chosen = composed.words
    return TracedEstimate(
        name=name,
        value=chosen,
        title=composed.title,
        iteration_ms=whole,
        change_ms=change,
        throughput=None,
        peak_bytes=Interval.exact(float(peak)) if peak is not None and not changed.memory_changed else None,
        speedup=now.value / value if value > 0 else 1.0,
        applicable=reason is None,
        reason=reason,
        semantics=composed.semantics.value,
        basis=composed.basis(recording).value,
        assumptions=changed.assumptions,
        one_off_s=changed.one_off_s,
        break_even_iterations=break_even(changed.one_off_s, change),
        occasional_ms=changed.occasional_ms,
        values=composed.values,
        speedup_range=speedup_range(now.value / value, now.value, change) if value > 0 else None,
    )
