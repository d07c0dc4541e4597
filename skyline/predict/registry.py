"""Finds the predictors of operator times and the GPUs they know: both are installed, none is built in."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from skyline.errors import UsageError
from skyline.predict.operator_time import OperatorPredictor

ENTRY_POINT_GROUP = "skyline.predictors"
DEFAULT = "roofline"


@cache
def predictors() -> dict[str, OperatorPredictor]:
    """All installed predictors by name."""
    made: list[OperatorPredictor] = [entry.load()() for entry in entry_points(group=ENTRY_POINT_GROUP)]
    return {predictor.name: predictor for predictor in sorted(made, key=lambda predictor: predictor.name)}


def predictor_named(name: str = DEFAULT) -> OperatorPredictor:
    """The predictor of that name.

    Raises:
        UsageError: none of that name is installed.
    """
    known = predictors()
    if name in known:
        return known[name]
    if not known:
        raise UsageError(
            "no predictor of operator times is installed", hint="Reinstall skyline-profiler: it brings one."
        )
    raise UsageError(f"there is no predictor {name!r}", hint=f"Installed: {', '.join(known)}.")
