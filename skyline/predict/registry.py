"""Finds the predictors of operator times and the GPUs they know: both are installed, none is built in."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import Calibrating, CalibrationGain, Claiming, OperatorPredictor

ENTRY_POINT_GROUP = "skyline.predictors"
PREFERRED = ("mixed", "learned", "roofline")
"""Of those that are installed, the first is asked where nobody names one."""
_ONE_MODEL = "roofline"


@cache
def predictors() -> dict[str, OperatorPredictor]:
    """All installed predictors by name."""
    made: list[OperatorPredictor] = [entry.load()() for entry in entry_points(group=ENTRY_POINT_GROUP)]
    return {predictor.name: predictor for predictor in sorted(made, key=lambda predictor: predictor.name)}


def predictor_named(name: str | None = None) -> OperatorPredictor:
    """The predictor of that name; without a name the preferred one.

    Raises:
        UsageError: none of that name is installed, or none at all.
    """
    known = predictors()
    if name is None:
        name = next((one for one in PREFERRED if one in known), next(iter(known), ""))
    if name in known:
        return known[name]
    if not known:
        raise UsageError(
            "no predictor of operator times is installed", hint="Reinstall skyline-profiler: it brings one."
        )
    raise UsageError(f"there is no predictor {name!r}", hint=f"Installed: {', '.join(known)}.")


def predictor_for(device: GpuSpec) -> OperatorPredictor:
    """The predictor to ask about this device: one that claims it, else the preferred one.

    Raises:
        UsageError: none is installed.
    """
    claiming = (one for one in predictors().values() if isinstance(one, Claiming) and one.claims(device))
    return next(claiming, None) or predictor_named()


def calibration_gain(name: str) -> CalibrationGain | None:
    """What the measurements of the device of that name are worth; None where it is not known or not measured."""
    try:
        device = gpu_named(name)
    except UsageError:
        return None
    gains = (one.gain(device) for one in predictors().values() if isinstance(one, Calibrating))
    return next((gain for gain in gains if gain is not None), None)


def across_formats() -> OperatorPredictor | None:
    """The predictor whose times in different number formats come from one model, so that they can be compared.

    One that was learned in some formats only answers others in another way. None where nothing is installed.
    """
    known = predictors()
    return known.get(_ONE_MODEL) or next(iter(known.values()), None)
