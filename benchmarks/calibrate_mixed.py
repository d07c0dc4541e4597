"""Fits the constants of the predictor ``mixed`` on published steps, and says how well it does on what it did not see.

``calibrate_mixed.py --data FOLDER`` fits on all rows and writes the constants; ``--left-out`` also fits without one
group of model families after another, and without one GPU after another, and keeps what was predicted of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from image_rows import ImageRow, Programs, image_rows, sampled
from machine import Machine
from numpy.typing import NDArray
from operator_table import TableStore
from result_file import table, write
from step_sums import StepSums, fitted

import skyline_predictors.mixed
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.constants import Constant
from skyline_predictors.mixed.constants import table as constants_table

FOLDER = Path(skyline_predictors.mixed.__file__).parent
_FOLDS = 4
_COVERED = 0.9
_USUAL = 0.12
"""Standard deviation of a kind's logarithm before anything is known of it."""
_NORMAL = 1.645
"""Between this many standard deviations either way lie nine tenths of a normal distribution."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with timm.csv")
    parser.add_argument("--sample", type=int, default=0, help="only so many models")
    parser.add_argument("--stored", action="store_true", help="only models whose operators are stored")
    parser.add_argument("--left-out", action="store_true", help="also fit without families and GPUs in turn")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    rows = image_rows(options.data)
    store = TableStore()
    programs = Programs(store)
    if options.stored:
        rows = [row for row in rows if programs.stored(row)]
    if options.sample:
        rows = sampled(rows, options.sample)
    sums = StepSums(rows, programs)
    programs.close()
    ranges = {name: (one.low, one.high) for name, one in constants_table().items()}
    start = {name: one.value for name, one in constants_table().items()}
    every = np.ones(len(sums.rows), np.bool_)
    weights = setting_weights(sums)
    found = fitted(sums, every, start, ranges, rounds=options.rounds, weights=weights, said=True)
    keep(found)
    if options.left_out:
        _left_out(sums, found, ranges, weights, options.rounds)


def setting_weights(sums: StepSums) -> Floats:
    """Rows of models that were measured often count less; training counts three times, for which there are few."""
    counts: dict[tuple[str, bool], int] = {}
    for row in sums.rows:
        key = row.model, row.training
        counts[key] = counts.get(key, 0) + 1
    found = np.array(
        [(3.0 if row.training else 1.0) / counts[row.model, row.training] ** 0.5 for row in sums.rows]
    )
    return found / found.mean()


def keep(found: Mapping[str, float]) -> None:
    """Write the constants into the package, with the ranges and sources that they have there."""
    lines = [
        f'"{name}": {json.dumps([float(f"{found[name]:.4g}"), one.low, one.high, one.source], ensure_ascii=False)}'
        for name, one in constants_table().items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    msgspec.json.decode(text, type=dict[str, Constant])
    (FOLDER / "constants.json").write_text(text, encoding="utf-8")


def families(sums: StepSums) -> NDArray[np.int64]:
    """The fold of each row: families, ordered by a hash of their names, are dealt out to folds of one size."""
    names = {row.family for row in sums.rows}
    ordered = sorted(names, key=lambda name: sha256(name.encode()).hexdigest())
    places = {name: place % _FOLDS for place, name in enumerate(ordered)}
    return np.array([places[row.family] for row in sums.rows])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What fits that did not see a row predict of it, in µs and by kind of call as shares of the step.

    ``low`` and ``high`` end the interval as shares of the prediction.
    """

    predicted_us: Floats
    shares: dict[str, Floats]
    low: Floats
    high: Floats


def _left_out(
    sums: StepSums,
    start: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    weights: Floats,
    rounds: int,
) -> None:
    def without(groups: NDArray[Any]) -> tuple[Floats, dict[str, Floats]]:
        predicted = np.zeros(len(sums.rows))
        shares: dict[str, Floats] = {}
        for group in sorted(set(groups.tolist())):
            away = groups == group
            parts = sums.by_kind(fitted(sums, ~away, start, ranges, rounds=rounds, weights=weights))
            total = sum(parts.values(), np.zeros(len(sums.rows)))
            predicted[away] = total[away]
            for kind, one in parts.items():
                shares.setdefault(kind.value, np.zeros(len(sums.rows)))[away] = (one / total)[away]
        return predicted, shares

    fold = families(sums)
    by_family, shares = without(fold)
    residuals = np.log(sums.measured_us / by_family)
    spread = spreads(residuals, shares)
    (FOLDER / "spreads.json").write_text(json.dumps(spread, indent=1) + "\n", encoding="utf-8")
    low, high = np.zeros(len(residuals)), np.zeros(len(residuals))
    for number in range(_FOLDS):
        # The interval of a row rests on the residuals of other families only.
        away = fold == number
        others = spreads(residuals[~away], {kind: one[~away] for kind, one in shares.items()})
        low[away], high[away] = ends(others, {kind: one[away] for kind, one in shares.items()})
    by_gpu, gpu_shares = without(np.array([row.gpu for row in sums.rows]))
    _page(
        sums,
        LeftOut(by_family, shares, low, high),
        LeftOut(by_gpu, gpu_shares, *ends(spread, gpu_shares)),
    )


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


def _page(sums: StepSums, by_family: LeftOut, by_gpu: LeftOut) -> None:
    rows: list[tuple[str, ...]] = []
    figures: dict[str, object] = {}
    settings = [_settings(row) for row in sums.rows]
    for setting in sorted({name for names in settings for name in names}):
        chosen = np.array([setting in names for names in settings])
        measured = sums.measured_us[chosen]
        cells: list[str] = []
        figure: dict[str, float] = {"rows": int(chosen.sum())}
        for name, left in (("family", by_family), ("gpu", by_gpu)):
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
    models = len({row.model for row in sums.rows if not row.training})
    body = (
        "Step times of published image models, with constants fitted without the row's own group of model families "
        f"({_FOLDS} groups of about the same number of families), and without any row of its GPU. Both fits start "
        "from the fit to all rows. Errors are relative and absolute; one row in ten exceeds the worst tenth; the bias "
        "is the median, positive where predictions are too long. `inside` is the share of measured times inside the "
        "interval, which is meant to be 90 %; its widths rest on rows of other families. Training was measured on "
        "one GPU only: without it the constants of training keep the middle of their ranges. Inference is that of "
        f"{models} models.\n\n" + table(head, rows)
    )
    write("mixed_left_out", "Steps in 16 bits, left out of the fit", Machine.here(), body, figures)


def _settings(row: ImageRow) -> tuple[str, str]:
    """The groups of rows that a row counts in."""
    mode = "training" if row.training else "inference"
    return f"{mode}, {row.gpu}, {row.layout}{', compiled' if row.compiled else ''}", f"{mode}, all"


if __name__ == "__main__":
    main()
