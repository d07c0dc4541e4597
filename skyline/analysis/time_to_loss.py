"""Time and cost to the same loss at another batch size, where the noise of the gradients is known."""

from __future__ import annotations

from dataclasses import replace

from skyline.analysis.gpu_costs import samples_of
from skyline.analysis.observed_noise import noise_of, noise_points
from skyline.analysis.training_time import Amount, samples_of_epoch, training_times
from skyline.interval import Interval
from skyline.predict.noise_scale import NoiseScale
from skyline.trace.profile import Profile
from skyline.whatif.estimate import CurvePoint, Estimate, TimeToLoss

_EPOCHLESS = 1.0
"""Ratios do not depend on the length of the training."""


def with_time_to_loss(found: Estimate, profile: Profile | None, now: CurvePoint | None) -> Estimate:
    """The answer with its time to the same loss, if it is about another batch size.

    ``now`` is the unchanged script, None where its samples per second are not known.
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
    """The noise scale with its origin."""
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
        basis=f"critical batch size {_words(noise)} samples, {source}"
        + (f"; {goal.source}" if goal is not None and goal.source else ""),
    )


def _words(noise: NoiseScale) -> str:
    if noise.value is None:
        return f"above {noise.low:,.3g}"
    if noise.low == noise.high:
        return f"{noise.value:,.0f}"
    ends = f"from {noise.low:,.0f}" if noise.high is None else f"{noise.low:,.0f}–{noise.high:,.0f}"
    return f"{noise.value:,.0f} ({ends})"
