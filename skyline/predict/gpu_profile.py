"""Profile of a script on a possibly absent GPU: traced at a few batch sizes, with predicted times."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, OutputCallback, Progress, ProgressCallback
from skyline.errors import UsageError
from skyline.memory.peak import usable_elsewhere
from skyline.predict.gpus import gpu_named
from skyline.predict.largest_batch import largest_batch
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.predicted_times import timed
from skyline.predict.registry import predictor_for
from skyline.predict.shape_tracer import ScriptTracer, TracedSizes
from skyline.source.line_map import same_code
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.trace.trial import Choices, Trial


def gpu_profile(
    request: CaptureRequest,
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    cancel: threading.Event | None = None,
    on_partial: Callable[[Profile], None] | None = None,
    starter: Starter = start_fresh,
) -> Profile:
    """Trace the script for the GPU in ``request`` and predict its times; nothing is executed on any GPU.

    ``on_partial`` receives the profile before other batch sizes are traced for the curve. ``starter`` starts the
    process of each trace. Raises UsageError for an unknown GPU, and the exceptions of ``capture``.
    """
    spec = gpu_named(request.gpu).limited(request.gpu_memory_bytes)
    predictor = predictor_for(spec)
    tracer = ScriptTracer(request, spec, progress, output, cancel, starter)
    traced = tracer.trace()
    # Tracing computes nothing, so the looked-up rows are taken from an earlier run.
    made = with_earlier_values(timed(traced, spec, predictor))
    if on_partial is not None:
        on_partial(made)
    progress(Progress("predict", f"times on the {spec.name}", 0.5))
    if request.batch_points <= 0:
        return made
    return _with_curve(made, TracedSizes(tracer, traced), predictor, tracer)


def _with_curve(
    made: Profile, sizes: TracedSizes, predictor: OperatorPredictor, tracer: ScriptTracer
) -> Profile:
    """Add a few batch sizes, including the largest that fits if it is found."""
    if sizes.way is None or made.prediction is None:
        return made
    largest = largest_batch(sizes, usable_elsewhere(tracer.gpu.memory_bytes))
    if largest.reason:
        reason = largest.reason[0].upper() + largest.reason[1:]
        return replace(made, notes=(*made.notes, f"{reason}: no other size was traced."))
    trials = [
        _trial(timed(traced, tracer.gpu, predictor), made, size)
        for size, traced in sizes.traced.items()
        if size != made.batch_size
    ]
    prediction = replace(
        made.prediction,
        largest_batch=largest.size,
        largest_batch_traced=largest.traced,
        larger_untried=largest.larger_untried,
    )
    # Front ends have already shown the profile without a curve, and cache data under its id.
    return replace(made, id=secrets.token_hex(4), trials=tuple(trials), prediction=prediction)


def _trial(profile: Profile, base: Profile, size: int) -> Trial:
    """A traced batch size as a trial: value, low and high end of the ratio to the base.

    Errors at two batch sizes are correlated, so the ratio itself is more accurate than this interval. But the interval
    is shown with the time, whose full uncertainty counts.
    """
    own = base.times.steps_ms[0]
    ratios: tuple[float, ...] = (1.0, 1.0, 1.0)
    if profile.prediction is not None:
        said = profile.prediction.iteration_ms
        ratios = (said.low / own, said.value / own, said.high / own)
    return Trial(Choices(batch_size=size), profile.times, ratios, peak_bytes=profile.peak_bytes)


_LOOKED_AT = 3
"""Number of saved profiles that are read. Each takes up to a second."""


def with_earlier_values(profile: Profile) -> Profile:
    """The profile with the tensor values of the newest run of its code, unless it has its own or none is saved."""
    if profile.values is not None:
        return profile
    for path in store.saved(Path(profile.script))[:_LOOKED_AT]:
        try:
            earlier = store.load(path)
        except UsageError:
            continue
        values = earlier.values
        if values is not None and _same_run(earlier, profile):
            return replace(
                profile, values=replace(values, seen_on=values.seen_on or earlier.environment.device.name)
            )
    return profile


def _same_run(earlier: Profile, profile: Profile) -> bool:
    """True for the same arguments and batch size, and the same code in all files that both runs used."""
    asked = ("arguments", "module", "batch_size")
    if any(getattr(earlier, name) != getattr(profile, name) for name in asked):
        return False
    before = {source.path: source.text for source in earlier.sources}
    now = {source.path: source.text for source in profile.sources}
    common = before.keys() & now.keys()
    return bool(common) and all(same_code(before[path], now[path]) for path in common)
