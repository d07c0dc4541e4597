"""Fits a prediction for this machine's processor to runs of some values here, or else to a saved profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skyline.errors import SkylineError
from skyline.interval import interval_of_series
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.sweep.collected import Collected
from skyline.sweep.interpolation import interpolated
from skyline.sweep.measured import MeasuredPoints
from skyline.sweep.point import Provenance, Values
from skyline.sweep.predicted import predict_points
from skyline.sweep.setting import SweptScript
from skyline.trace.profile import Profile

_OWN = "cpu"


@dataclass(frozen=True, slots=True)
class RunsHere:
    """The runs of a prediction: the cores that other programs kept busy, and why no run succeeded, if so."""

    others_cores: float = 0.0
    failed: str = ""


def is_this_processor(device: GpuSpec) -> bool:
    """True if the device is the processor of this machine, on which the script can run."""
    return device.is_processor and device.name == _OWN


def run_here(script: SweptScript, wanted: Sequence[Values], collected: Collected, rounds: int) -> RunsHere:
    """Measures some predicted values, and fits all points to them, also if an interruption ends the runs.

    Values that fail here keep their prediction.
    """
    runs = collected.beside(len(wanted))
    # A GPU of this machine would be another device.
    own = replace(script.request, gpu="", gpu_memory_bytes=None, device="cpu")
    measuring = MeasuredPoints(replace(script, request=own), runs, rounds)
    failed = ""
    try:
        measuring.take(wanted)
    except SkylineError as error:
        failed = error.message
    finally:
        for point in interpolated(collected.points, {one.values: one.iteration_ms for one in runs.points}):
            collected.add(point)
    if not runs.points and runs.first_error is not None:
        failed = failed or runs.first_error.message
    return RunsHere(measuring.others_cores, "" if runs.points else " ".join(failed.split()))


def fit_to_saved(saved: Profile, script: SweptScript, gpu: GpuSpec, collected: Collected) -> bool:
    """Fits all points to the iteration of the profile, which has the present values; False if this is impossible.

    Present values that are no point of the sweep are traced only for the fit.
    """
    settings = script.settings
    present = tuple(one.place.value for one in settings if one.place.value is not None)
    ran = any(one.provenance is Provenance.MEASURED for one in collected.points)
    if ran or len(present) < len(settings):
        return False
    points = collected.points
    known = {one.values for one in points}
    if present not in known:
        alone = collected.beside(1)
        predict_points(script, gpu, [present], alone)
        points += alone.points
    time = interval_of_series(saved.times.steps_ms)
    for point in interpolated(points, {present: time}):
        if point.values in known:
            collected.add(point)
    return any(one.values == present for one in points)
