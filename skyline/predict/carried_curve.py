"""The curve of the previous run, used for the script at another batch size until a new curve is measured."""

from __future__ import annotations

from dataclasses import replace

from skyline.errors import RewriteRefused
from skyline.predict.batch_curve import batch_curve
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.trace.trial import Choices, Trial, batch_trials

NOTE = "The curve is from the previous run; it is being measured again."


def with_carried_curve(profile: Profile, before: Profile | None) -> Profile:
    """``profile`` with the curve of ``before``, if the two differ only in batch size.

    Every point of the curve is a ratio to its own base: the ratios are divided by the old curve's ratio at the new
    batch size. If the scripts differ otherwise, or without a curve, the profile is unchanged.
    """
    size = profile.batch_size
    if before is None or before.batch_size is None or size is None:
        return profile
    known = batch_trials(before.trials)
    if (
        before.prediction is not None
        or profile.prediction is not None
        or batch_trials(profile.trials)
        or not known
        or not _same_but_for_size(profile, before)
    ):
        return profile
    base = batch_curve(before).ratio(size).value
    own = Trial(Choices(batch_size=before.batch_size), before.times, (1.0, 1.0), peak_bytes=before.peak_bytes)
    carried = tuple(
        replace(trial, ratios=tuple(ratio / base for ratio in trial.ratios), operators=(), python_us={})
        for other, trial in sorted({**known, before.batch_size: own}.items())
        if other != size
    )
    return replace(profile, trials=(*profile.trials, *carried), notes=(*profile.notes, NOTE))


def _same_but_for_size(profile: Profile, before: Profile) -> bool:
    """True if writing the older batch size into the newer sources gives the older sources."""
    knob, old_knob = profile.knobs.best, before.knobs.best
    if knob is None or old_knob is None or knob.span.file != old_knob.span.file:
        return False
    if profile.arguments != before.arguments or profile.interpreter != before.interpreter:
        return False
    older = {source.path: source.text for source in before.sources}
    newer = {source.path: source.text for source in profile.sources}
    # The script itself is the first source, with its links resolved.
    place = profile.sources[0].path if knob.span.file == profile.script else knob.span.file
    if place not in newer:
        return False
    text = SourceText.of(knob.span.file, newer[place])
    try:
        newer[place] = text.apply([text.edit(knob.span, old_knob.text)]).text
    except (RewriteRefused, ValueError):
        return False
    return newer == older
