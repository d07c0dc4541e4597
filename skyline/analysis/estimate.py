"""Answers to questions about a profile or a trace: batch size and what-ifs, simulated together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, hypot, log, sqrt
from typing import TYPE_CHECKING

from skyline.analysis.gpu_costs import samples_of
from skyline.analysis.observed_noise import noise_of, noise_points
from skyline.analysis.training_time import Amount, samples_of_epoch, training_times
from skyline.errors import SkylineError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.memory.peak import Fit, fit, usable_bytes
from skyline.predict.noise_scale import NoiseScale
from skyline.stage_failures import failure
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.whatif.base import Scenario, Semantics, throughput_at
from skyline.whatif.calibration import scale_host_to
from skyline.whatif.catalogue.memory.batch_size import offered_sizes, shown_sizes
from skyline.whatif.composition import Composition, compose
from skyline.whatif.conformal import published_factors, stretched
from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.question import (
    BATCH_SIZE,
    LEAST_SHARE,
    Choice,
    CurvePoint,
    Estimate,
    Question,
    TimeToLoss,
    break_even,
    speedup_range,
)
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import NEEDS_PROFILE, Subject, process_spread

if TYPE_CHECKING:
    # The import serves type checking only: answers about a trace need no sources and rewrites.
    from skyline.analysis.analyse import Analysis
    from skyline.analysis.rewrites import Rewrites

logger = logging.getLogger(__name__)

_NEVER_LESS_SURE = 0.1
"""Least uncertainty of a change to a trace, relative to the change: nothing was measured with it."""
BEYOND_MODEL = Constant(
    0.085,
    0.081,
    0.088,
    "benchmarks/beyond_models.py: nine in ten of 420 changes on spent lists are off by less beyond their modelled "
    "range; the ends are those with one list left out",
    machine=EPYC,
)
"""Error beyond the modelled range, as a logarithm of the iteration time, for a change with an effect of at
least ``WHOLE``."""
WHOLE = Constant.at(
    0.05,
    "benchmarks/beyond_models.py: an assumption that the lists bear out; a smaller effect is off by less in proportion",
)
"""Least joint effect of the changes, as a logarithm, with the full error ``BEYOND_MODEL``."""


def estimate(analysis: Analysis, question: Question) -> Estimate:
    """The joint effect of all parts of the question, simulated and never multiplied.

    A part that is not applicable, or that fails, is omitted and named in ``reason``; the whole is then not applicable.

    Raises:
        UsageError: a what-if does not exist, or does not accept its value.
    """
    return answer(analysis.baseline, question.all_choices, analysis.rewrites)


def answer(subject: Subject, choices: Sequence[Choice], rewrites: Rewrites | None = None) -> Estimate:
    """The answer about a profile or a trace; without ``rewrites`` there is no source to rewrite.

    Raises:
        UsageError: a what-if does not exist, or does not accept its value.
    """
    composed = compose(subject, choices)
    if subject.refusal:
        composed = replace(composed, scenario=composed.start, reason=subject.refusal)
    try:
        return _estimate(subject, composed, rewrites)
    except SkylineError:
        raise
    except Exception as error:
        logger.info("%s could not be simulated", composed.title, exc_info=True)
        reasons = filter(None, (composed.reason, f"it could not be simulated: {failure(error)}"))
        unchanged = replace(composed, scenario=composed.start, reason="; ".join(reasons))
        return _estimate(subject, unchanged, rewrites)


def answer_or_reason(
    subject: Subject, choices: Sequence[Choice], rewrites: Rewrites | None = None
) -> Estimate:
    """The answer to a generated question: invalid values make it not applicable instead of raising."""
    try:
        return answer(subject, choices, rewrites)
    except SkylineError as error:
        unchanged = compose(subject, ())
        name, _, value = " ".join(map(str, choices)).partition("=")
        failed = _estimate(subject, replace(unchanged, reason=error.message), rewrites)
        return replace(failed, name=name if len(choices) == 1 else "combined", value=value)


def rank(analysis: Analysis) -> tuple[Estimate, ...]:
    """Every known what-if on its own, with its suggested value.

    The most certain gain is first. What-ifs that train another model follow, then inapplicable ones.
    """
    return ranked(analysis.baseline, analysis.rewrites)


def ranked(subject: Subject, rewrites: Rewrites | None = None) -> tuple[Estimate, ...]:
    """The ranking for a profile or a trace. For a trace, what-ifs that need a profile are omitted."""
    answers = [answer_or_reason(subject, (Choice(name),), rewrites) for name in whatifs()]
    asked = [one for one in answers if one.reason != NEEDS_PROFILE]
    return tuple(sorted(asked, key=_place))


def _place(one: Estimate) -> tuple[bool, bool, float, str]:
    return not one.applicable, one.semantics == Semantics.MODEL.value, -one.sure_speedup, one.name


def _estimate(subject: Subject, composed: Composition, rewrites: Rewrites | None) -> Estimate:
    scenario, now = composed.scenario, subject.running_ms
    iteration_ms, change_ms, effect_ms = _times(subject, composed)
    throughput = throughput_at(subject, scenario, iteration_ms)
    before = throughput_at(subject, composed.start, now)
    if throughput is not None and before is not None:
        speedup = throughput.value / before.value
    else:
        speedup = scenario.samples_factor * now.value / iteration_ms.value if iteration_ms.value > 0 else 1.0
    rewrite, rewrite_reason = ("none", "a trace has no source to rewrite")
    if rewrites is not None:
        rewrite, rewrite_reason = rewrites.availability(composed.made)
    name, value = composed.words
    found = Estimate(
        name=name,
        value=value,
        title=composed.title,
        iteration_ms=iteration_ms,
        change_ms=change_ms,
        throughput=throughput,
        peak_bytes=_peak_bytes(subject, scenario),
        speedup=speedup,
        applicable=not composed.reason,
        reason=composed.reason or None,
        semantics=composed.semantics.value,
        provenance=scenario.provenance.value,
        assumptions=(*scenario.assumptions, *_of_other_ranks(subject, composed)),
        rewrite=rewrite,
        rewrite_reason=rewrite_reason,
        batch_size=scenario.batch_size,
        extrapolated=scenario.extrapolated,
        one_off_s=scenario.one_off_s,
        break_even_iterations=break_even(scenario.one_off_s, change_ms),
        occasional_ms=scenario.occasional_ms,
        occasional_range_ms=scenario.occasional if scenario.occasional.half_width > 0 else None,
        values=composed.values,
        speedup_range=speedup_range(speedup, now.value, change_ms) if iteration_ms.value > 0 else None,
        effect_range=speedup_range(speedup, now.value, effect_ms) if iteration_ms.value > 0 else None,
    )
    size = None if subject.profile is None else subject.profile.batch_size
    if size is None or before is None:
        return found
    peak = found.peak if subject.peak_bytes is None else subject.peak_bytes
    as_is = CurvePoint(size, now, before, peak, measured=True, extrapolated=False)
    return _with_time_to_loss(found, subject.profile, as_is)


def _stretch(subject: Subject, composed: Composition) -> float | None:
    """The factor for the range: from published pairs for a predicted profile, else from verifications here."""
    if subject.profile is None or composed.untouched:
        return None
    predicted = subject.profile.prediction is not None
    known = published_factors() if predicted else subject.range_factors
    names = sorted(name for name, _ in composed.made)
    together = known.get("+".join(names))
    factors = [known.get(name) for name in names] if together is None else [together]
    found = [one for one in factors if one is not None]
    return max(found) if found and len(found) == len(factors) else None


def _of_other_ranks(subject: Subject, composed: Composition) -> tuple[str, ...]:
    """The assumption about collectives in the trace of one rank, which does not show how long other ranks wait."""
    waiting = select(subject.graph, kind=TaskKind.KERNEL, phase=Phase.COMMUNICATION)
    if subject.recording is None or composed.untouched or not len(waiting):
        return ()
    return ("collectives wait for other ranks as recorded; skyline ranks --whatif simulates all ranks",)


def _times(subject: Subject, composed: Composition) -> tuple[Interval, Interval, Interval]:
    """The iteration time, its change between two runs, and the effect of the change alone.

    The value is the simulated ratio times the measured time. Uncertainties are independent. The scatter of
    the iterations applies with and without the change, so the change includes its share of it. The changed
    script is another process, and models are incomplete: both apply to every change alike, so the effect
    alone excludes them.
    """
    now, scenario = subject.running_ms, composed.scenario
    before_ms = 0.0 if composed.untouched else subject.step_ms(composed.start.graph)
    ratio = subject.step_ms(scenario.graph) / before_ms if before_ms > 0 else 1.0
    value = now.value * ratio
    change = value - now.value
    # Nothing was measured with a change to a trace, so the simulation error also applies to the change.
    doubt = 0.0 if subject.recording is None else max(subject.replay_error, _NEVER_LESS_SURE) * abs(change)
    spread = (subject.host.spread.low, subject.host.spread.high) if before_ms > 0 else ()
    by_host = [0.0, *(_with_host(subject, composed, one) * now.value - value for one in spread if one != 1)]
    below = hypot(scenario.below_ms, doubt, min(by_host))
    above = hypot(scenario.above_ms, doubt, max(by_host))
    if value <= now.value >= value + max(scenario.above_ms, doubt, *by_host):
        # No single part lengthens the step, so the parts together do not either.
        above = min(above, now.value - value)
    runs_anew = bool(composed.made) and scenario is not composed.start
    # Work that runs in few iterations has its own range.
    typical = value - scenario.occasional_ms
    beyond = beyond_model(subject, typical / now.value if now.value else 0.0, len(composed.made))
    apart = hypot(process_spread(subject) * value, beyond * typical) if runs_anew else 0.0

    def ranged(center: float, share: float, between: float) -> Interval:
        """The interval with a share of the scatter of the iterations and the errors outside the models."""
        less = hypot(below, share * (now.value - now.low), between)
        more = hypot(above, share * (now.high - now.value), between)
        return Interval(center, center - less, center + more)

    own = abs(1 - ratio)
    effect, changed = (_at_least(-now.value, ranged(change, own, between)) for between in (0.0, apart))
    whole = ranged(value, ratio, apart)
    if (factor := _stretch(subject, composed)) is not None:
        # The range of the ratio from measured cases replaces the modelled one.
        ends = (max(LEAST_SHARE, 1 + end / now.value) for end in changed.ends)
        wide = stretched(Interval(*ends), factor).scaled(now.value)
        below, above = value - wide.low, wide.high - value
        effect = changed = Interval(change, change - below, change + above)
        # Measured cases already include it.
        whole = ranged(value, ratio, 0.0)
    same = composed.untouched and not apart
    return now if same else _at_least(LEAST_SHARE * value, whole), changed, effect


def beyond_model(subject: Subject, ratio: float, changes: int) -> float:
    """The largest relative deviation of the iteration from each end of its modelled range, with this number of changes.

    ``ratio`` is the predicted iteration time over the current one. Errors of several changes are independent,
    so they grow with the root of their number. 0 for a script that was not measured on a processor, as for
    ``process_spread``.
    """
    if not subject.ran_on_cpu or ratio <= 0:
        return 0.0
    return exp(beyond(ratio, changes, BEYOND_MODEL.value)) - 1


def beyond(ratio: float, changes: int, whole: float) -> float:
    """The same as a logarithm. ``whole`` is the error of a single change with full effect."""
    return whole * sqrt(changes) * min(1.0, abs(log(ratio)) / WHOLE.value)


def _at_least(least: float, found: Interval) -> Interval:
    """The interval with a low end of at least ``least``."""
    return Interval(found.value, max(least, found.low), found.high)


def _with_host(subject: Subject, composed: Composition, factor: float) -> float:
    """The simulated ratio for a host that is slower or faster by a factor, within the known range."""
    after, before = (
        subject.step_ms(scale_host_to(graph, subject.lane, factor))
        for graph in (composed.scenario.graph, composed.start.graph)
    )
    return after / before


def _peak_bytes(subject: Subject, scenario: Scenario) -> Interval | None:
    """The peak with the changes; None if their effect on it is unknown."""
    if scenario.memory is not None:
        return scenario.memory.peak_bytes
    return None if scenario.memory_changed else subject.peak_bytes


def curve_points(baseline: Subject) -> tuple[CurvePoint, ...]:
    """The sizes to display, smallest first; empty if the script's own batch size is unknown."""
    curve = baseline.curve
    points: list[CurvePoint] = []
    for size in shown_sizes(baseline):
        ratio = curve.ratio(size)
        own = size == curve.base
        iteration_ms = baseline.iteration_ms if own else _iteration_ms(baseline, ratio)
        throughput = throughput_at(baseline, size, iteration_ms)
        if throughput is not None:
            points.append(
                CurvePoint(
                    size,
                    iteration_ms,
                    throughput,
                    Interval.exact(float(baseline.peak.total)) if own else curve.peak_bytes(size),
                    curve.measured(size) and baseline.script.prediction is None,
                    curve.extrapolated(size),
                )
            )
    return tuple(points)


def _iteration_ms(baseline: Subject, ratio: Interval) -> Interval:
    """The ratio times the script's own time, with both uncertainties unless the ratio already includes them.

    A run at another size is another process, with the same errors as any other change.
    """
    own = baseline.iteration_ms
    found = ratio.scaled(own.value)
    if baseline.script.prediction is not None:
        return found
    apart = hypot(process_spread(baseline), beyond_model(baseline, ratio.value, 1)) * found.value
    below = hypot(found.value - found.low, ratio.value * (own.value - own.low), apart)
    above = hypot(found.high - found.value, ratio.value * (own.high - own.value), apart)
    ranged = Interval(found.value, found.value - below, found.value + above)
    return _at_least(LEAST_SHARE * found.value, ranged)


def curve_under(analysis: Analysis, choices: Iterable[Choice]) -> tuple[CurvePoint, ...]:
    """Time and memory at the sizes to display, each simulated together with ``choices``, smallest first.

    A batch size among ``choices`` is ignored. Sizes that fit only with the changes are included, sizes that no longer
    fit are not. Empty if the changes, or other batch sizes, have no answer.

    Raises:
        UsageError: a what-if does not exist, or does not accept its value.
    """
    changes = tuple(choice for choice in choices if choice.name != BATCH_SIZE)
    if not changes:
        return analysis.curve
    curve = analysis.baseline.curve
    usable = usable_bytes(analysis.profile)
    points: list[CurvePoint] = []
    # An invalid value for the unchanged script is an error; at another size the point is omitted.
    estimate(analysis, Question(None, changes))
    for size in offered_sizes(analysis.baseline):
        own = size == curve.base
        found = answer_or_reason(
            analysis.baseline, Question(None if own else size, changes).all_choices, analysis.rewrites
        )
        if not found.applicable or found.throughput is None:
            continue
        if own or fit(found.peak, usable) is not Fit.TOO_LARGE:
            points.append(
                CurvePoint(
                    size,
                    found.iteration_ms,
                    found.throughput,
                    found.peak,
                    measured=False,
                    extrapolated=curve.extrapolated(size),
                )
            )
    return tuple(points)


_EPOCHLESS = 1.0
"""Placeholder for the length of the training, which does not affect ratios."""


def _with_time_to_loss(found: Estimate, profile: Profile | None, now: CurvePoint | None) -> Estimate:
    """The answer with its time to the same loss if it changes the batch size.

    ``now`` is the unchanged script. None if its samples per second are unknown.
    """
    if profile is None or now is None or not found.applicable or found.throughput is None:
        return found
    if found.batch_size is None or found.batch_size == now.batch_size:
        return found
    noise, source = _noise(profile)
    if noise is None:
        return found
    then = CurvePoint(
        found.batch_size,
        found.iteration_ms,
        found.throughput,
        found.peak,
        measured=False,
        extrapolated=found.extrapolated,
    )
    return replace(found, to_loss=_time_to_loss(profile, now, then, found, noise, source))


def _noise(profile: Profile) -> tuple[NoiseScale | None, str]:
    """The noise scale and its origin."""
    goal = profile.goal
    if goal is not None and goal.noise_scale is not None:
        return NoiseScale(goal.noise_scale, goal.noise_scale, goal.noise_scale), "as given"
    return noise_of(profile, noise_points(profile), goal.samples if goal is not None else None), "measured"


def _time_to_loss(
    profile: Profile, now: CurvePoint, then: CurvePoint, found: Estimate, noise: NoiseScale, source: str
) -> TimeToLoss | None:
    goal = profile.goal
    per_epoch, per_step = samples_of_epoch(profile), samples_of(profile)
    samples = goal.samples if goal is not None else _EPOCHLESS
    rows = training_times(
        profile,
        (now, then),
        None,
        noise,
        Amount(samples, samples / per_epoch if per_epoch else None),
        profile.training,
        goal.usd_per_hour if goal is not None else None,
    )
    by_size = {one.batch_size: one for one in rows}
    if per_step is None or then.batch_size not in by_size or now.batch_size not in by_size:
        return None
    row, before = by_size[then.batch_size], by_size[now.batch_size]
    ratio, speed = row.samples_ratio, found.speedup_range or Interval.exact(found.speedup)
    return TimeToLoss(
        samples_ratio=ratio,
        time_ratio=Interval(ratio.value / speed.value, ratio.low / speed.high, ratio.high / speed.low),
        time_s=row.time_s if goal is not None else None,
        now_s=before.time_s if goal is not None else None,
        usd=row.usd if goal is not None else None,
        basis=f"critical batch size {_noise_words(noise)} samples, {source}"
        + (f"; {goal.source}" if goal is not None and goal.source else ""),
    )


def _noise_words(noise: NoiseScale) -> str:
    if noise.value is None:
        return f"above {noise.low:,.3g}"
    if noise.low == noise.high:
        return f"{noise.value:,.0f}"
    ends = f"from {noise.low:,.0f}" if noise.high is None else f"{noise.low:,.0f}–{noise.high:,.0f}"
    return f"{noise.value:,.0f} ({ends})"
