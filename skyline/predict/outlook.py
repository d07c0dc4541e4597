"""Predictions for a script on each of several possibly absent GPUs, with as few traces as possible."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, OutputCallback, Progress, ProgressCallback
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit, usable_elsewhere
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.largest_batch import LargestBatch, largest_batch
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.predicted_times import timed
from skyline.predict.registry import predictor_for
from skyline.predict.shape_tracer import ScriptTracer, TracedSizes
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class Outlook:
    """A script on one GPU. ``profile`` is the profile of the unchanged script, even if it does not fit.

    ``fullest`` is the profile at the largest traced batch size that fits: the script's own size if no other was traced,
    None if no traced size fits.
    """

    gpu: GpuSpec
    profile: Profile
    usable_bytes: int
    fits: Fit
    largest: LargestBatch
    fullest: Profile | None


def outlooks(
    request: CaptureRequest,
    gpus: Sequence[GpuSpec],
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> tuple[Outlook, ...]:
    """Trace the script at its own batch size and at others that determine the largest; then predict times on each GPU.

    The script is traced again only for GPUs that answer its queries differently. Raises the exceptions of ``capture``.
    """
    searched: list[tuple[GpuSpec, TracedSizes, LargestBatch]] = []
    for number, gpu in enumerate(gpus):

        def report(one: Progress, number: int = number) -> None:
            progress(replace(one, fraction=(number + one.fraction) / len(gpus)))

        sizes = next(
            (one for other, one, _ in searched if same_answers(one.base.asked_of_gpu, other, gpu)), None
        )
        if sizes is None:
            tracer = ScriptTracer(request, gpu, report, None if searched else output, cancel, starter)
            sizes = TracedSizes(tracer, tracer.trace())
        searched.append((gpu, sizes, largest_batch(sizes, usable_elsewhere(gpu.memory_bytes))))
    progress(Progress("predict", "times on each GPU", 0.95))
    # A size that was traced for one GPU may be the largest traced one that fits another.
    return tuple(_outlook(sizes, gpu, largest) for gpu, sizes, largest in searched)


def _outlook(sizes: TracedSizes, gpu: GpuSpec, largest: LargestBatch) -> Outlook:
    usable_bytes, predictor = usable_elsewhere(gpu.memory_bytes), predictor_for(gpu)
    profile = timed(sizes.base, gpu, predictor)
    fits = fit(Interval.exact(float(profile.peak_bytes)), usable_bytes)
    return Outlook(
        gpu, profile, usable_bytes, fits, largest, _fullest(sizes, profile, gpu, predictor, usable_bytes)
    )


def _fullest(
    sizes: TracedSizes, profile: Profile, gpu: GpuSpec, predictor: OperatorPredictor, usable_bytes: int
) -> Profile | None:
    fitting = [size for size, peak in sizes.peaks.items() if peak <= usable_bytes]
    if not fitting:
        # Without a known batch size only the unchanged script is available.
        return profile if not sizes.peaks and profile.peak_bytes <= usable_bytes else None
    size = fitting[-1]
    return profile if size == profile.batch_size else timed(sizes.traced[size], gpu, predictor)


_ANSWERS: dict[str, Callable[[GpuSpec], object]] = {
    "is_bf16_supported": lambda gpu: gpu.compute_capability[0] >= 8,
    "get_device_capability": lambda gpu: gpu.compute_capability,
    "get_arch_list": lambda gpu: gpu.compute_capability,
}
"""A GPU's answers to queries during tracing. For all other queries, such as its name, every GPU differs."""


def same_answers(asked: Iterable[str], one: GpuSpec, other: GpuSpec) -> bool:
    """True if both GPUs give equal answers to all queries in ``asked``."""
    return all(_answer(question, one) == _answer(question, other) for question in asked)


def _answer(question: str, gpu: GpuSpec) -> object:
    return _ANSWERS[question](gpu) if question in _ANSWERS else gpu
