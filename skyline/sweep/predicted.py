"""Points on a GPU that need not be present: the script is traced by shape, and its times are predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from skyline.errors import SkylineError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.predicted_times import group_times_us, timed
from skyline.predict.registry import predictor_for
from skyline.predict.shape_tracer import ScriptTracer
from skyline.sweep.collected import Collected
from skyline.sweep.point import TimePart, Values, predicted_point
from skyline.sweep.setting import SweptScript
from skyline.trace.profile import Profile


def predict_points(
    script: SweptScript,
    gpu: GpuSpec,
    wanted: Sequence[Values],
    collected: Collected,
    on_first: Callable[[Profile], None] = lambda _: None,
) -> None:
    """Predicts the points in their order; ``on_first`` receives the first profile."""
    predictor, loading = predictor_for(gpu), LoadingRate()
    first = True
    for values in wanted:
        if collected.is_over:
            return
        collected.say(script.words(values))
        try:
            tracer = ScriptTracer(script.at(values), gpu, lambda _: None, starter=script.starter)
            loaded = loading.applied(tracer.trace())
            profile = timed(loaded, gpu, predictor)
        except SkylineError as error:
            collected.fail(values, error)
            continue
        if first:
            on_first(profile)
            first = False
        collected.add(predicted_point(values, profile, gpu, _parts(loaded, gpu, predictor)))


def _parts(traced: Profile, gpu: GpuSpec, predictor: OperatorPredictor) -> tuple[TimePart, ...]:
    """The parts of the time on a processor. A GPU and its host work in parallel, so their parts do not add up."""
    if not gpu.is_processor:
        return ()
    groups = group_times_us(traced, gpu, predictor)
    return tuple(
        TimePart(kind, time_us.scaled(1e-3)) for kind, time_us in groups.items() if time_us.value > 0
    )


class LoadingRate:
    """The time per byte of the first traced point that loads batches; all later points use it."""

    def __init__(self) -> None:
        self._us_per_byte: float | None = None

    def applied(self, traced: Profile) -> Profile:
        """The trace with that rate; unchanged if it has no timed loading."""
        reads = traced.timed_reads
        bytes_read = sum(sum(one.tensor_bytes) for one in reads)
        took_us = sum(one.took_us for one in reads)
        if not bytes_read or not took_us:
            return traced
        if self._us_per_byte is None:
            self._us_per_byte = took_us / bytes_read
        factor = self._us_per_byte * bytes_read / took_us
        return replace(traced, timed_reads=tuple(replace(one, took_us=one.took_us * factor) for one in reads))
