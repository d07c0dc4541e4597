"""Answers questions about a recording: what-ifs singly and together, each by a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Literal

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.units import format_share
from skyline.whatif.base import Basis, Semantics
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs
from skyline.whatif.traced.base import Changed, TracedWhatIf
from skyline.whatif.traced.facts import peak_bytes
from skyline.whatif.traced.recording import Recording, step_ms
from skyline.whatif.traced.registry import traced_whatifs

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


def rank_traced(recording: Recording) -> tuple[TracedEstimate, ...]:
    """Every what-if that can be asked of a recording, singly: best gain first, inapplicable ones last."""
    answers = [estimate_traced(recording, (Choice(name),)) for name in traced_whatifs()]
    return tuple(sorted(answers, key=lambda one: (not one.applicable, -one.speedup, one.name)))


def check_choices(choices: Sequence[Choice]) -> None:
    """Raises UsageError for a what-if that nobody knows, before anything is read for it."""
    known = {*traced_whatifs(), *whatifs()}
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
    known = traced_whatifs()
    changed = Changed(recording.graph)
    asked: list[tuple[TracedWhatIf, str]] = []
    reasons: list[str] = []
    values: dict[str, str] = {}
    for choice in sorted(choices, key=lambda one: known[one.name].stage if one.name in known else 0):
        if choice.name not in known:
            why = "not known from a trace; profile the script for it: skyline profile SCRIPT"
            reasons.append(why if len(choices) == 1 else f"{choice.name}: {why}")
            continue
        whatif = known[choice.name]
        found = whatif.detect(recording)
        values[choice.name] = value = choice.value or found.default
        asked.append((whatif, value))
        if not found.applicable:
            reasons.append(found.reason if len(choices) == 1 else f"{choice.name}: {found.reason}")
            continue
        changed = whatif.transform(changed, value, recording)
    if recording.replay_error > REFUSED_REPLAY:
        error = format_share(recording.replay_error)
        reasons = [
            f"simulated as recorded, a step comes out {error} off: the model does not hold for this trace"
        ]
        changed = Changed(recording.graph)
    words = tuple(replace(choice, value=values.get(choice.name, choice.value)) for choice in choices)
    return _answer(recording, changed, asked, words, "; ".join(reasons) or None)


def _answer(
    recording: Recording,
    changed: Changed,
    asked: list[tuple[TracedWhatIf, str]],
    words: tuple[Choice, ...],
    reason: str | None,
) -> TracedEstimate:
    now = recording.running_ms
    untouched = changed.graph is recording.graph or recording.settled_ms <= 0
    ratio = 1.0 if untouched else step_ms(recording, changed.graph) / recording.settled_ms
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
    single = len(words) == 1
    return TracedEstimate(
        name=words[0].name if single else "combined",
        value=words[0].value if single else " ".join(map(str, words)),
        title=" + ".join(whatif.title(chosen) for whatif, chosen in asked) or "the script as it stands",
        iteration_ms=whole,
        change_ms=change,
        throughput=None,
        peak_bytes=Interval.exact(float(peak)) if peak is not None and not changed.memory_changes else None,
        speedup=now.value / value if value > 0 else 1.0,
        applicable=reason is None,
        reason=reason,
        semantics=max(
            (one.semantics for one, _ in asked), key=list(Semantics).index, default=Semantics.EXACT
        ).value,
        basis=max(
            (one.basis(recording) for one, _ in asked), key=list(Basis).index, default=Basis.MODEL_ONLY
        ).value,
        assumptions=changed.assumptions,
    )
