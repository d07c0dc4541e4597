"""A saved profile of the script as it is, which a prediction for this processor is fitted to where nothing ran."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.interval import interval_of_series
from skyline.predict.gpu_spec import GpuSpec
from skyline.sweep.collected import Collected
from skyline.sweep.interpolation import interpolated
from skyline.sweep.point import Provenance
from skyline.sweep.predicted import predict_points
from skyline.sweep.setting import SweptSetting
from skyline.trace.profile import Profile


def fit_to_saved(
    saved: Profile,
    request: CaptureRequest,
    gpu: GpuSpec,
    settings: Sequence[SweptSetting],
    collected: Collected,
    *,
    progress: ProgressCallback,
    cancel: threading.Event | None,
    starter: Starter,
) -> bool:
    """Fit all points to the iteration of the profile, which has the present values; False if that is not possible.

    Present values that are no point of the sweep are traced for the fit alone. Raises Cancelled.
    """
    present = tuple(one.place.value for one in settings if one.place.value is not None)
    ran = any(one.provenance is Provenance.MEASURED for one in collected.points)
    if ran or len(present) < len(settings):
        return False
    points = collected.points
    known = {one.values for one in points}
    if present not in known:
        alone = Collected(1, collected.left_s, progress)
        predict_points(request, gpu, settings, [present], alone, _unused, cancel=cancel, starter=starter)
        points += alone.points
    time = interval_of_series(saved.times.steps_ms)
    for point in interpolated(points, {present: time}):
        if point.values in known:
            collected.add(point)
    return any(one.values == present for one in points)


def _unused(_: Profile) -> None:
    pass
