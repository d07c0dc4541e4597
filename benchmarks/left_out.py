"""Fits without one group of rows at a time, and their predictions for the rows left out."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from interval_widths import Predicted
from numpy.typing import NDArray
from step_sums import Calibration, StepSums

FOLDS = 4


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows predicted by fits without their families, and by fits without their GPUs."""

    by_family: Predicted
    by_gpu: Predicted


def families(sums: StepSums) -> NDArray[np.int64]:
    """The fold of each row. Families are ordered by a hash of their names and distributed evenly over the folds."""
    names = {row.family for row in sums.rows}
    ordered = sorted(names, key=lambda name: sha256(name.encode()).hexdigest())
    places = {name: place % FOLDS for place, name in enumerate(ordered)}
    return np.array([places[row.family] for row in sums.rows])


def without_each(calibration: Calibration) -> LeftOut:
    """Fits without each fold of families and without each GPU."""
    sums = calibration.sums
    gpus = np.array([row.gpu for row in sums.rows])
    return LeftOut(_without(calibration, families(sums)), _without(calibration, gpus))


def _without(calibration: Calibration, groups: NDArray[Any]) -> Predicted:
    """The prediction of each row by a fit without its group."""
    sums = calibration.sums
    predicted = np.zeros(len(sums.rows))
    shares: dict[str, NDArray[np.float64]] = {}
    for group in sorted(set(groups.tolist())):
        print(f"without {group}", flush=True)
        away = groups == group
        parts = sums.by_kind(calibration.without(away))
        total = sum(parts.values(), np.zeros(len(sums.rows)))
        predicted[away] = total[away]
        for kind, one in parts.items():
            shares.setdefault(kind.value, np.zeros(len(sums.rows)))[away] = (one / total)[away]
    return Predicted(predicted, shares)
