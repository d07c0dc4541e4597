"""The profile of a script on a GPU that need not be here: traced at a few batch sizes, then given predicted times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from skyline.capture.batch_sizes import followed, run_with
from skyline.capture.gpu_target import GpuTarget
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, OutputCallback, Progress, ProgressCallback
from skyline.capture.shape_session import trace_shapes
from skyline.errors import BudgetExceeded, CaptureImpossible, ScriptFailed
from skyline.memory.capacity import usable_bytes
from skyline.memory.fit import Fit, fit
from skyline.predict.batch_curve import batch_curve
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.registry import predictor_named
from skyline.predict.timed import timed
from skyline.source.knob import Knob
from skyline.trace.profile import BatchPoint, Profile
from skyline.trace.record import RecordKind

_FACTORS = (2.0, 0.5)
_FURTHEST = 64
"""How many times its own batch a script is traced at most to find the largest one that fits."""


def gpu_profile(
    request: CaptureRequest,
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    cancel: threading.Event | None = None,
    on_partial: Callable[[Profile], None] | None = None,
    starter: Starter = start_fresh,
) -> Profile:
    """Trace the script for the GPU that ``request`` names and predict its times; nothing is executed on any GPU.

    ``on_partial`` receives the profile before the other batch sizes are traced for the curve; ``starter`` makes
    the process of each trace.
    Raises UsageError for a GPU that is not known, and what ``capture`` raises.
    """
    spec = gpu_named(request.gpu)
    predictor = predictor_named()
    tracer = _Tracer(request, spec, progress, output, cancel, starter)
    traced = tracer.trace(request)
    if not any(record.kind is RecordKind.KERNEL for record in traced.trace.records):
        raise CaptureImpossible(
            f"This script never moves its model to a GPU, so there is nothing to predict for the {spec.name}",
            hint="Move model and batches with .to('cuda') or let the script choose: torch.cuda.is_available() "
            "answers True while it is traced.",
        )
    made = timed(traced, spec, predictor)
    if on_partial is not None:
        on_partial(made)
    progress(Progress("predict", f"times on the {spec.name}", 0.5))
    return _with_curve(made, tracer, predictor) if request.batch_points > 0 else made


@dataclass(frozen=True, slots=True)
class _Tracer:
    """Traces the script as it stands and at other batch sizes."""

    request: CaptureRequest
    gpu: GpuSpec
    progress: ProgressCallback
    output: OutputCallback | None
    cancel: threading.Event | None
    starter: Starter

    def trace(self, request: CaptureRequest, *, quiet: bool = False) -> Profile:
        """The traced profile, its times nominal."""
        target = GpuTarget(
            self.gpu.full_name,
            self.gpu.memory_bytes,
            self.gpu.compute_capability,
            self.gpu.multiprocessors,
        )

        def report(progress: Progress) -> None:
            if not quiet:
                self.progress(replace(progress, fraction=0.5 * progress.fraction))

        return trace_shapes(
            request,
            target,
            progress=report,
            output=None if quiet else self.output,
            cancel=self.cancel,
            starter=self.starter,
        )

    def at(self, profile: Profile, knob: Knob, size: int, done: float) -> Profile | None:
        """The script traced at another batch size; None where it does not follow the knob or cannot run so."""
        sources = {source.path: source.text for source in profile.sources}
        overrides, arguments = run_with(knob, size, self.request.arguments, sources)
        given = (*self.request.source_overrides, *overrides.items())
        self.progress(Progress("curve", f"tracing at batch size {size}", done))
        try:
            changed = replace(self.request, arguments=arguments, source_overrides=given)
            traced = self.trace(changed, quiet=True)
        except (ScriptFailed, CaptureImpossible, BudgetExceeded):
            return None
        return traced if followed(knob, size, _seen(profile), _seen(traced)) else None


def _with_curve(made: Profile, tracer: _Tracer, predictor: OperatorPredictor) -> Profile:
    """With a few batch sizes, the largest that fits among them where it can be found."""
    knob = next((one for one in made.knobs.candidates if one.value == made.batch_size), None)
    if knob is None:
        return made
    points = {knob.value: _point(made, made, knob.value)}

    def add(size: int, done: float) -> bool:
        other = tracer.at(made, knob, size, done)
        if other is not None:
            points[size] = _point(timed(other, tracer.gpu, predictor), made, size)
        return other is not None

    data_sets = [loader.dataset_size for loader in made.loaders if loader.dataset_size]
    most = min([knob.value * _FURTHEST, *data_sets])
    for number, factor in enumerate(_FACTORS):
        size = max(1, round(knob.value * factor))
        if size not in points and size <= most:
            add(size, 0.6 + 0.1 * number)
    if len(points) < 2:
        note = f"Changing {knob.name} on line {knob.span.line} did not change the batch: no other size was traced."
        return replace(made, notes=(*made.notes, note))
    drawn = _drawn(made, points)
    largest = _largest_fitting(drawn, most)
    traced_there = largest is not None and (largest in points or add(largest, 0.85))
    drawn = _drawn(made, points)
    if made.prediction is None:
        return drawn
    checked = _largest_fitting(drawn, most)
    prediction = replace(
        made.prediction,
        largest_batch=checked,
        largest_batch_traced=traced_there and checked == largest,
        larger_untried=checked == most,
    )
    return replace(drawn, prediction=prediction)


def _drawn(made: Profile, points: dict[int, BatchPoint]) -> Profile:
    return replace(made, points=tuple(points[size] for size in sorted(points)))


def _point(profile: Profile, base: Profile, size: int) -> BatchPoint:
    """A traced batch size as a point of the curve: value, low and high end of the ratio to the base.

    Errors at two batch sizes mostly go together, so that the ratio is known better than this says; but the time
    itself is not, and it is the time that the band is shown around.
    """
    own = base.times.steps_ms[0]
    ratios: tuple[float, ...] = (1.0, 1.0, 1.0)
    if size != base.batch_size and profile.prediction is not None:
        said = profile.prediction.iteration_ms
        ratios = (said.low / own, said.value / own, said.high / own)
    return BatchPoint(size, profile.times, ratios, profile.peak_bytes, profile.batch.leading_dimensions)


def _largest_fitting(profile: Profile, most: int) -> int | None:
    """The largest batch size whose memory fits, by the straight lines through the traced ones; at most ``most``."""
    curve, usable = batch_curve(profile), usable_bytes(profile)
    if curve.base is None or curve.reason:
        return None

    def fits(size: int) -> bool:
        return fit(curve.peak_bytes(size), usable) is Fit.FITS

    if not fits(1):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _seen(profile: Profile) -> tuple[int, ...]:
    sizes = [loader.batch_size for loader in profile.loaders if loader.batch_size]
    return (*sizes, *profile.batch.leading_dimensions)
