"""Widths of intervals that contain nine in ten measured steps, and ratios of steps that differ in one choice.

An interval combines the kinds of calls of a step. The deviation of each kind is known, and one factor per kind of step
scales all of them (split conformal prediction). Ratios have a single half width in logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from image_rows import ImageRow
from numpy.typing import NDArray

from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.step_width import StepKind

COVERED = 0.9
_USUAL = 0.12
"""Prior standard deviation of the logarithm of a kind."""
_NORMAL = 1.645
"""Half width, in standard deviations, that contains nine tenths of a normal distribution."""
_WIDEST = 32.0
"""Upper limit of the search for a factor."""
Chosen = NDArray[np.bool_]
Shares = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predicted times in µs, with the share of each kind of call."""

    us: Floats
    shares: dict[str, Floats]

    def part(self, chosen: Chosen) -> Predicted:
        """The predictions of some rows."""
        return Predicted(self.us[chosen], {kind: one[chosen] for kind, one in self.shares.items()})


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of intervals as shares of the prediction."""

    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Twins:
    """The indices of two rows that differ in one choice, and the group of their ratio."""

    group: str
    over: int
    under: int


def kind_of(row: ImageRow) -> StepKind:
    """The kind of the step that a row measured."""
    last = row.layout == "nhwc"
    if row.training:
        return StepKind.TRAINING_LAST if last else StepKind.TRAINING
    if row.compiled:
        return StepKind.COMPILED
    return StepKind.INFERENCE_LAST if last else StepKind.INFERENCE


def ends(spread: Mapping[str, float], shares: Shares, factor: float | Floats = 1.0) -> Ends:
    """The ends of the intervals of steps, combined over the kinds of call as in the product."""
    below = above = np.zeros(1)
    for kind, share in shares.items():
        wide = np.exp(_NORMAL * spread[kind] * factor)
        below = below + (share * (1 - 1 / wide)) ** 2
        above = above + (share * (wide - 1)) ** 2
    return Ends(1 - np.sqrt(below), 1 + np.sqrt(above))


def needed(measured_us: Floats, predicted: Predicted, spread: Mapping[str, float]) -> Floats:
    """For each row, the smallest factor with which its interval contains the measured time."""
    ratio = measured_us / predicted.us
    low, high = np.zeros(len(ratio)), np.full(len(ratio), _WIDEST)
    for _ in range(30):
        middle = (low + high) / 2
        found = ends(spread, predicted.shares, middle)
        inside = (found.low <= ratio) & (ratio <= found.high)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return high


def held(scores: Floats) -> float:
    """The score that a new one does not exceed with the intended probability: rank ``ceil((n + 1) * 0.9)``."""
    ordered = np.sort(scores)
    return float(ordered[min(len(ordered), ceil((len(ordered) + 1) * COVERED)) - 1])


def spreads(residuals: Floats, shares: Shares) -> dict[str, float]:
    """The standard deviation of each kind of call that explains the residuals best, if the kinds err independently.

    The likelihood is maximised by the multiplicative steps of variance components. Then all deviations are scaled so
    that nine tenths of the residuals are inside.
    """
    names = sorted(shares)
    squares = np.array([shares[name] for name in names]).T ** 2
    variances = np.full(len(names), _USUAL**2)
    # The prior has the weight of a twentieth of the residuals.
    known = len(residuals) / 20
    for _ in range(60):
        expected = squares @ variances
        up = squares.T @ np.minimum(residuals**2 / expected**2, 9 / expected) + known / _USUAL**2
        down = squares.T @ (1 / expected) + known * variances / _USUAL**4
        variances = np.clip(variances * np.clip(up / down, 0.5, 2.0), (_USUAL / 2) ** 2, (3 * _USUAL) ** 2)
    ratio = np.abs(residuals) / np.sqrt(squares @ variances)
    scale = float(np.quantile(ratio, COVERED)) / _NORMAL
    return {
        name: round(float(np.sqrt(one)) * scale, 4)
        for name, one in zip(names, variances.tolist(), strict=True)
    }


def all_spreads(measured_us: Floats, predicted: Predicted) -> dict[str, float]:
    """The deviations of all predictions of rows left out."""
    return spreads(np.log(measured_us / predicted.us), predicted.shares)


def crossed(
    rows: Sequence[ImageRow], measured_us: Floats, half: NDArray[np.int64], seen: Predicted, unseen: Predicted
) -> tuple[Ends, Ends]:
    """Intervals of each row from the other half of the families, on GPUs used in the fit and on other GPUs.

    For the latter, the factor comes from other GPUs if steps of the kind were measured on any.
    """
    kinds = np.array([kind_of(row).value for row in rows])
    gpus = np.array([row.gpu for row in rows])
    found = tuple(Ends(np.zeros(len(rows)), np.zeros(len(rows))) for _ in range(2))
    for number in (0, 1):
        sets = half != number
        spread = all_spreads(measured_us[sets], seen.part(sets))
        for place, (predicted, ends_found) in enumerate(zip((seen, unseen), found, strict=True)):
            need = needed(measured_us, predicted, spread)
            for kind, gpu in sorted(set(zip(kinds.tolist(), gpus.tolist(), strict=True))):
                own = (kinds == kind) & sets
                others = own & (gpus != gpu)
                factor = held(need[others if place and others.any() else own])
                scored = (half == number) & (kinds == kind) & (gpus == gpu)
                some = ends(spread, predicted.part(scored).shares, factor)
                ends_found.low[scored], ends_found.high[scored] = some.low, some.high
    return found[0], found[1]


def twins(rows: Sequence[ImageRow]) -> list[Twins]:
    """Pairs of rows: channels last over channels first, and compiled over not compiled."""
    by_key = {_key(row, row.layout, row.compiled): place for place, row in enumerate(rows)}
    found: list[Twins] = []
    for place, row in enumerate(rows):
        mode = "training" if row.training else "inference"
        for said, applies, layout in (
            ("channels last over first", row.layout == "nhwc", "nchw"),
            ("compiled over not", row.compiled, row.layout),
        ):
            under = by_key.get(_key(row, layout, False)) if applies else None
            if under is not None:
                found.append(Twins(f"{said}, {mode}, {row.gpu}", place, under))
    return found


def ratio_widths(
    pairs: Sequence[Twins], half: NDArray[np.int64], errors: Floats, *, unseen: bool = False
) -> Floats:
    """The half width of the ratio of each pair in logarithms, from the other half of the families.

    For an ``unseen`` GPU it comes from other GPUs, if the choice was measured on any.
    """
    choices = np.array([pair.group.rpartition(",")[0] for pair in pairs])
    gpus = np.array([pair.group.rpartition(",")[2] for pair in pairs])
    halves = half[[pair.over for pair in pairs]]
    found = np.zeros(len(pairs))
    for number, choice, gpu in sorted(
        set(zip(halves.tolist(), choices.tolist(), gpus.tolist(), strict=True))
    ):
        own = (choices == choice) & (halves != number)
        others = own & (gpus != gpu)
        sets = others if unseen and others.any() else own
        scored = (halves == number) & (choices == choice) & (gpus == gpu)
        found[scored] = held(errors[sets]) if sets.any() else np.inf
    return found


def _key(row: ImageRow, layout: str, compiled: bool) -> tuple[object, ...]:
    return (row.model, row.image_size, row.training, row.gpu, row.precision, row.torch, layout, compiled)
