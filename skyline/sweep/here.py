"""Runs of some values on this machine, which a prediction for its processor is fitted to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.errors import Cancelled, SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.sweep.collected import Collected
from skyline.sweep.interpolation import interpolated
from skyline.sweep.measured import MeasuredPoints
from skyline.sweep.point import Values
from skyline.sweep.setting import SweptSetting
from skyline.trace.profile import Profile

_OWN = "cpu"


@dataclass(frozen=True, slots=True)
class RunsHere:
    """The runs of a prediction: the cores that other programs kept busy, and the reason why none succeeded, if so."""

    others_cores: float = 0.0
    failed: str = ""


def is_this_processor(device: GpuSpec) -> bool:
    """True if the device is the processor of this machine, on which the script can run."""
    return device.is_processor and device.name == _OWN


def run_here(
    request: CaptureRequest,
    settings: Sequence[SweptSetting],
    wanted: Sequence[Values],
    collected: Collected,
    *,
    rounds: int,
    progress: ProgressCallback,
    cancel: threading.Event | None,
    starter: Starter,
) -> RunsHere:
    """Measure some predicted values, and fit all points to them, also where an interruption ends the runs.

    Values that fail here keep their prediction. Raises Cancelled.
    """
    runs = Collected(len(wanted), collected.left_s, progress)
    # A GPU that this machine may have is another device.
    own = replace(request, gpu="", gpu_memory_bytes=None, device="cpu")
    measuring = MeasuredPoints(own, settings, runs, _unused, rounds=rounds, cancel=cancel, starter=starter)
    failed = ""
    try:
        measuring.take(wanted)
    except Cancelled:
        raise
    except SkylineError as error:
        failed = error.message
    finally:
        for point in interpolated(collected.points, {one.values: one.iteration_ms for one in runs.points}):
            collected.add(point)
    if not runs.points and runs.first_error is not None:
        failed = failed or runs.first_error.message
    return RunsHere(measuring.others_cores, "" if runs.points else " ".join(failed.split()))


def _unused(_: Profile) -> None:
    pass
