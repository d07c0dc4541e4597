"""Traces a script by shape for one GPU, at its own batch size and at others, once per size."""

from __future__ import annotations

import threading
from dataclasses import replace

from skyline.capture.batch_way import BatchWay, followed, loader_way, sized_run
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, OutputCallback, Progress, ProgressCallback
from skyline.capture.shape_session import GpuTarget, trace_shapes
from skyline.errors import BudgetExceeded, CaptureImpossible, ScriptFailed
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.facts import LoaderFact
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind


@dataclass(frozen=True, slots=True)
class ScriptTracer:
    """Traces the script, unchanged and at other batch sizes."""

    request: CaptureRequest
    gpu: GpuSpec
    progress: ProgressCallback
    output: OutputCallback | None = None
    cancel: threading.Event | None = None
    starter: Starter = start_fresh

    def trace(self) -> Profile:
        """Trace the unchanged script, with nominal times.

        Raises:
            CaptureImpossible: the script never moves its model to a GPU; or an error of ``capture``.
        """
        traced = self._trace(self.request, quiet=False)
        if not any(record.kind is RecordKind.KERNEL for record in traced.trace.records):
            raise CaptureImpossible(
                "This script never moves its model to a GPU, so there is nothing to predict on a GPU",
                hint="Move model and batches with .to('cuda') or let the script choose: torch.cuda.is_available() "
                "answers True while it is traced.",
            )
        return traced

    def at(self, profile: Profile, way: BatchWay, size: int, done: float) -> Profile | None:
        """The script traced at another batch size; None if it cannot be set this way, or fails."""
        sources = {source.path: source.text for source in profile.sources}
        sized = sized_run(way, size, self.request.arguments, sources)
        if sized is None or profile.batch_size is None:
            return None
        given = (*self.request.source_overrides, *sized.sources.items())
        self.progress(Progress("curve", f"tracing at batch size {size}", done))
        try:
            changed = replace(
                self.request,
                arguments=sized.arguments,
                source_overrides=given,
                loader_batch=sized.loader,
            )
            traced = self._trace(changed, quiet=True)
        except (ScriptFailed, CaptureImpossible, BudgetExceeded):
            return None
        return traced if followed(profile.batch_size, size, _seen(profile), _seen(traced)) else None

    def _trace(self, request: CaptureRequest, *, quiet: bool) -> Profile:
        target = GpuTarget(
            self.gpu.full_name,
            self.gpu.memory_bytes,
            self.gpu.compute_capability,
            self.gpu.multiprocessors,
            self.gpu.is_processor,
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


class TracedSizes:
    """A script traced at its own batch size and, on request, at other sizes."""

    def __init__(self, tracer: ScriptTracer, base: Profile) -> None:
        self._tracer = tracer
        self.base = base
        self._ways = _ways(base)
        self._known: dict[int, Profile | None] = {}
        if base.batch_size is not None:
            self._known[base.batch_size] = base

    @property
    def way(self) -> BatchWay | None:
        """The way to set another batch size; None if unknown, so that no other size can be traced."""
        return self._ways[0] if self._ways else None

    @property
    def most(self) -> int | None:
        """The number of samples in the data sets, which limits the batch size; None if unknown."""
        return min((one.dataset_size for one in self.base.loaders if one.dataset_size), default=None)

    @property
    def peaks(self) -> dict[int, int]:
        """Peak of live tensor memory in bytes by traced batch size, smallest first."""
        return {size: profile.peak_bytes for size, profile in self.traced.items()}

    @property
    def traced(self) -> dict[int, Profile]:
        """The successfully traced sizes, smallest first."""
        return {size: one for size, one in sorted(self._known.items()) if one is not None}

    def at(self, size: int, done: float = 0.6) -> Profile | None:
        """The script at this batch size; None if it cannot be traced. ``done`` is the reported progress."""
        if size not in self._known:
            self._known[size] = self._traced_at(size, done)
        return self._known[size]

    def _traced_at(self, size: int, done: float) -> Profile | None:
        """Trace by the way that worked before. Until one has worked, try each of them."""
        while self.way is not None:
            traced = self._tracer.at(self.base, self.way, size, done)
            if traced is not None or len(self.traced) > 1 or len(self._ways) == 1:
                return traced
            self._ways.pop(0)
        return None


def _ways(base: Profile) -> list[BatchWay]:
    knob = next((one for one in base.knobs.candidates if one.value == base.batch_size), None)
    return [way for way in (knob, loader_way(_loader(base)), base.setting) if way is not None]


def _loader(profile: Profile) -> LoaderFact | None:
    """The loader of the training loop."""
    return next((one for one in profile.loaders if one.fetches_per_iteration), None)


def _seen(profile: Profile) -> tuple[int, ...]:
    loader = _loader(profile)
    if loader is not None and loader.batch_size:
        return (loader.batch_size,)
    return profile.batch.leading_dimensions
