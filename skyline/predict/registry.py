"""Registry of the predictors of operator times and the GPUs that they know; all are installed as plugins."""

from __future__ import annotations

from functools import cache

from skyline.entry_points import entry_points
from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import (
    Calibrating,
    CalibrationGain,
    Claiming,
    OperatorPredictor,
    Tiling,
)

ENTRY_POINT_GROUP = "skyline.predictors"
PREFERRED = ("mixed", "learned", "roofline")
"""Order of preference among installed predictors."""
_ONE_MODEL = "roofline"


@cache
def predictors() -> dict[str, OperatorPredictor]:
    """All installed predictors by name."""
    made: list[OperatorPredictor] = [entry.load()() for entry in entry_points(ENTRY_POINT_GROUP)]
    return {predictor.name: predictor for predictor in sorted(made, key=lambda predictor: predictor.name)}


def predictor_named(name: str | None = None) -> OperatorPredictor:
    """The predictor of that name; the preferred one without a name.

    Raises:
        UsageError: it is not installed, or no predictor is.
    """
    known = predictors()
    if name is None:
        name = next((one for one in PREFERRED if one in known), next(iter(known), ""))
    if name in known:
        return known[name]
    if not known:
        raise UsageError(
            "no predictor of operator times is installed",
            hint="Reinstall skyline-profiler, which contains one.",
        )
    raise UsageError(f"there is no predictor {name!r}", hint=f"Installed: {', '.join(known)}.")


def predictor_for(device: GpuSpec) -> OperatorPredictor:
    """The predictor for this device: one that claims it, else the preferred one.

    Raises:
        UsageError: no predictor is installed.
    """
    claiming = (one for one in predictors().values() if isinstance(one, Claiming) and one.claims(device))
    return next(claiming, None) or predictor_named()


def calibration_gain(name: str) -> CalibrationGain | None:
    """The benefit of the measurements of this device; None if it is unknown or not measured."""
    try:
        device = gpu_named(name)
    except UsageError:
        return None
    gains = (one.gain(device) for one in predictors().values() if isinstance(one, Calibrating))
    return next((gain for gain in gains if gain is not None), None)


def across_formats() -> OperatorPredictor | None:
    """A predictor that uses one model for all number formats, so that its times are comparable across formats.

    A learned predictor uses another model for formats that it was not trained on. None if no predictor is installed.
    """
    known = predictors()
    return known.get(_ONE_MODEL) or next(iter(known.values()), None)


def tiling() -> Tiling | None:
    """A predictor that models tiles; None if none is installed."""
    return next((one for one in predictors().values() if isinstance(one, Tiling)), None)
