"""Fits without one group of rows after another, and what they predict of the rows that they did not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from image_rows import ImageRow
from machine import Machine
from numpy.typing import NDArray
from result_file import table, write
from step_sums import Calibration, StepSums

from skyline_predictors.memory_levels import Floats

FOLDS = 4
_COVERED = 0.9
_USUAL = 0.12
"""Standard deviation of a kind's logarithm before anything is known of it."""
_NORMAL = 1.645
"""Between this many standard deviations either way lie nine tenths of a normal distribution."""


def families(sums: StepSums) -> NDArray[np.int64]:
    """The fold of each row: families, ordered by a hash of their names, are dealt out to folds of one size."""
    names = {row.family for row in sums.rows}
    ordered = sorted(names, key=lambda name: sha256(name.encode()).hexdigest())
    places = {name: place % FOLDS for place, name in enumerate(ordered)}
    return np.array([places[row.family] for row in sums.rows])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Predictions for rows that the fit did not see, in µs and by kind of call as shares of the step.

    ``low`` and ``high`` end the interval as shares of the prediction.
    """

    predicted_us: Floats
    shares: dict[str, Floats]
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class LeftOuts:
    """Rows predicted without their families, and without their GPUs; ``spreads`` by kind of call come of the former."""

    by_family: LeftOut
    by_gpu: LeftOut
    spreads: dict[str, float]


def without_each(calibration: Calibration) -> LeftOuts:
    """Fits without each fold of families and without each GPU."""
    sums = calibration.sums
    fold = families(sums)
    by_family, shares = _without(calibration, fold)
    residuals = np.log(sums.measured_us / by_family)
    spread = spreads(residuals, shares)
    low, high = np.zeros(len(residuals)), np.zeros(len(residuals))
    for number in range(FOLDS):
        # The interval of a row rests on the residuals of other families only.
        away = fold == number
        others = spreads(residuals[~away], {kind: one[~away] for kind, one in shares.items()})
        low[away], high[away] = ends(others, {kind: one[away] for kind, one in shares.items()})
    by_gpu, gpu_shares = _without(calibration, np.array([row.gpu for row in sums.rows]))
    return LeftOuts(
        LeftOut(by_family, shares, low, high),
        LeftOut(by_gpu, gpu_shares, *ends(spread, gpu_shares)),
        spread,
    )


def _without(calibration: Calibration, groups: NDArray[Any]) -> tuple[Floats, dict[str, Floats]]:
    """Each row as a fit without its group predicts it: its time, and the shares of kinds of call in it."""
    sums = calibration.sums
    predicted = np.zeros(len(sums.rows))
    shares: dict[str, Floats] = {}
    for group in sorted(set(groups.tolist())):
        print(f"without {group}", flush=True)
        away = groups == group
        parts = sums.by_kind(calibration.without(away))
        total = sum(parts.values(), np.zeros(len(sums.rows)))
        predicted[away] = total[away]
        for kind, one in parts.items():
            shares.setdefault(kind.value, np.zeros(len(sums.rows)))[away] = (one / total)[away]
    return predicted, shares


def ends(spread: Mapping[str, float], shares: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """The ends of steps' intervals as shares of the prediction, joined over the kinds as the product does."""
    below = above = 0.0
    for kind, share in shares.items():
        factor = np.exp(_NORMAL * spread[kind])
        below = below + (share * (1 - 1 / factor)) ** 2
        above = above + (share * (factor - 1)) ** 2
    return 1 - np.sqrt(below), 1 + np.sqrt(above)


def spreads(residuals: Floats, shares: Mapping[str, Floats]) -> dict[str, float]:
    """By kind, the standard deviation that explains the residuals best when kinds are off independently.

    Likelihood is climbed by the multiplicative steps of variance components, from a tenth each; then all are scaled so
    that nine tenths of the residuals lie inside.
    """
    names = sorted(shares)
    squares = np.array([shares[name] for name in names]).T ** 2
    variances = np.full(len(names), _USUAL**2)
    # As much is known before the residuals are seen as a twentieth of them say.
    known = len(residuals) / 20
    for _ in range(60):
        expected = squares @ variances
        up = squares.T @ np.minimum(residuals**2 / expected**2, 9 / expected) + known / _USUAL**2
        down = squares.T @ (1 / expected) + known * variances / _USUAL**4
        variances = np.clip(variances * np.clip(up / down, 0.5, 2.0), (_USUAL / 2) ** 2, (3 * _USUAL) ** 2)
    ratio = np.abs(residuals) / np.sqrt(squares @ variances)
    scale = float(np.quantile(ratio, _COVERED)) / _NORMAL
    return {
        name: round(float(np.sqrt(one)) * scale, 4)
        for name, one in zip(names, variances.tolist(), strict=True)
    }


def left_out_page(sums: StepSums, left_outs: LeftOuts) -> None:
    """Write the errors on rows left out, setting by setting."""
    rows: list[tuple[str, ...]] = []
    figures: dict[str, object] = {}
    settings = [_settings(row) for row in sums.rows]
    for setting in sorted({name for names in settings for name in names}):
        chosen = np.array([setting in names for names in settings])
        measured = sums.measured_us[chosen]
        cells: list[str] = []
        figure: dict[str, float] = {"rows": int(chosen.sum())}
        for name, left in (("family", left_outs.by_family), ("gpu", left_outs.by_gpu)):
            error = left.predicted_us[chosen] / measured - 1
            mean, tenth = float(np.abs(error).mean()), float(np.quantile(np.abs(error), 0.9))
            ratio = measured / left.predicted_us[chosen]
            inside = float(((left.low[chosen] <= ratio) & (ratio <= left.high[chosen])).mean())
            width = float(np.median(left.high[chosen] - left.low[chosen]))
            cells += [
                f"{100 * mean:.1f} %",
                f"{100 * tenth:.1f} %",
                f"{100 * float(np.median(error)):+.1f} %",
                f"{100 * inside:.0f} %",
                f"±{50 * width:.0f} %",
            ]
            figure |= {f"{name}_mean": mean, f"{name}_worst_tenth": tenth}
            figure |= {f"{name}_inside": inside, f"{name}_width": width}
        rows.append((setting, str(int(chosen.sum())), *cells))
        figures[setting] = figure
    each = ("worst tenth", "bias", "inside", "width")
    head = ("rows of", "number", "family left out", *each, "GPU left out", *each)
    models = {mode: {row.model for row in sums.rows if row.training is mode} for mode in (True, False)}
    folds = families(sums).tolist()
    groups = [
        sorted({row.family for row, fold in zip(sums.rows, folds, strict=True) if fold == number})
        for number in range(FOLDS)
    ]
    listed = [f"- group {number}: {', '.join(names)}" for number, names in enumerate(groups, 1)]
    body = (
        f"`calibrate_mixed.py` fits the constants on {len(sums.rows)} rows of `timm.csv`: training of "
        f"{len(models[True])} models, inference of {len(models[False])} models (`mixed_models.json`). The table has "
        f"the errors of fits without one of {FOLDS} groups of model families, listed below, and without one GPU. "
        "The fit to all rows starts from the middle of the ranges, the others from that fit. The form of the formulas "
        "was chosen by these errors. Errors are relative and absolute. One row in ten exceeds the worst tenth. The "
        "bias is the median, positive where predictions are too long. `inside` is the share of measured times inside "
        "the interval, which is meant to be 90 %; the widths of a row's interval rest on other families. Training was "
        "measured on one GPU only: without it the constants of training keep the middle of their ranges.\n\n"
        + table(head, rows)
        + "\n\n## Groups of families\n\n"
        + "\n".join(listed)
    )
    write("mixed_left_out", "Steps in 16 bits, left out of the fit", Machine.here(), body, figures)


def _settings(row: ImageRow) -> tuple[str, str]:
    """The groups of rows that a row counts in."""
    mode = "training" if row.training else "inference"
    return f"{mode}, {row.gpu}, {row.layout}{', compiled' if row.compiled else ''}", f"{mode}, all"
