"""The page of errors and intervals on published steps that were left out of the fit of ``mixed``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from image_rows import ImageRow
from interval_widths import Chosen, crossed, ratio_widths, twins
from left_out import FOLDS, LeftOut, families
from machine import Machine
from result_file import table, write
from step_sums import StepSums

from skyline_predictors.memory_levels import Floats

_EACH = ("worst tenth", "bias", "inside", "width")
_HEAD = ("rows of", "number", "family left out", *_EACH, "GPU left out", *_EACH)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Relative errors, the share of measured figures inside the intervals, and half of their mean width."""

    mean: float
    worst_tenth: float
    bias: float
    inside: float
    half_width: float

    @classmethod
    def of(cls, ratio: Floats, low: Floats, high: Floats) -> _Cells:
        """The cells from measured over predicted figures and the ends of intervals as shares of the prediction."""
        error = 1 / ratio - 1
        return cls(
            float(np.abs(error).mean()),
            float(np.quantile(np.abs(error), 0.9)),
            float(np.median(error)),
            float(((low <= ratio) & (ratio <= high)).mean()),
            float((high - low).mean()) / 2,
        )

    def said(self) -> tuple[str, ...]:
        """The cells of the table."""
        return (
            f"{100 * self.mean:.1f} %",
            f"{100 * self.worst_tenth:.1f} %",
            f"{100 * self.bias:+.1f} %",
            f"{100 * self.inside:.0f} %",
            f"±{100 * self.half_width:.0f} %",
        )


Lines = dict[str, tuple[int, _Cells, _Cells]]
"""The lines by group of rows: their number, and the cells without their families and without their GPU."""


def left_out_page(sums: StepSums, left: LeftOut) -> None:
    """Write the times by setting, and the ratios of layouts and of compiling."""
    times, ratios = step_lines(sums, left), ratio_lines(sums, left)
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
        "The fit to all rows starts from the middle of the ranges, the others from that fit. The form of the "
        "formulas was chosen by these errors. Errors are absolute relative errors. One row in ten exceeds "
        "the worst tenth. The bias is the median, positive if predictions are too long. Training was "
        "measured on only one GPU. Without that GPU, the constants of training keep the middle of their "
        "ranges.\n\n`inside` is the share of measured times inside the interval; the goal is 90 %. `width` "
        "is half of the mean width of the interval. One factor for each kind of step (training and inference "
        "by layout, compiled inference) stretches the intervals. It is chosen on one half of the families "
        "(groups 1 and 3, or 2 and 4) and scored on the other half. For a GPU left out, it is chosen on the "
        "other GPUs, except for training, which has only one GPU.\n\n"
        f"{_table(times)}\n\n## Ratios\n\n"
        "Each ratio is the time of a sample with a choice over the time without it. Both times are predicted "
        "separately. The interval of a ratio has one width for each choice, chosen and scored in the same "
        "way.\n\n"
        f"{_table(ratios)}\n\n## Groups of families\n\n" + "\n".join(listed)
    )
    figures = {
        group: {"rows": number, "family": asdict(family), "gpu": asdict(gpu)}
        for group, (number, family, gpu) in (times | ratios).items()
    }
    write("mixed_left_out", "Steps in 16 bits, left out of the fit", Machine.here(), body, figures)


def step_lines(sums: StepSums, left: LeftOut) -> Lines:
    """Times of steps."""
    both = (left.by_family, left.by_gpu)
    found = crossed(sums.rows, sums.measured_us, families(sums) % 2, *both)
    settings = [_settings(row) for row in sums.rows]
    lines: Lines = {}
    for setting in sorted({name for names in settings for name in names}):
        chosen: Chosen = np.array([setting in names for names in settings])
        family, gpu = (
            _Cells.of((sums.measured_us / predicted.us)[chosen], ends.low[chosen], ends.high[chosen])
            for predicted, ends in zip(both, found, strict=True)
        )
        lines[setting] = int(chosen.sum()), family, gpu
    return lines


def ratio_lines(sums: StepSums, left: LeftOut) -> Lines:
    """Ratios of steps that differ in one choice."""
    pairs = twins(sums.rows)
    half = families(sums) % 2
    measured = _ratios(sums.rows, sums.measured_us, [(pair.over, pair.under) for pair in pairs])
    lines: Lines = {}
    cells: list[tuple[Floats, Floats]] = []
    for predicted, unseen in ((left.by_family, False), (left.by_gpu, True)):
        ratio = measured / _ratios(sums.rows, predicted.us, [(pair.over, pair.under) for pair in pairs])
        cells.append((ratio, ratio_widths(pairs, half, np.abs(np.log(ratio)), unseen=unseen)))
    groups = [(pair.group, pair.group.partition(",")[0]) for pair in pairs]
    for group in sorted({name for names in groups for name in names}):
        chosen: Chosen = np.array([group in names for names in groups])
        family, gpu = (
            _Cells.of(ratio[chosen], np.exp(-width[chosen]), np.exp(width[chosen])) for ratio, width in cells
        )
        lines[group] = int(chosen.sum()), family, gpu
    return lines


def _ratios(rows: Sequence[ImageRow], times_us: Floats, pairs: Sequence[tuple[int, int]]) -> Floats:
    """The ratios of times per sample, because batches may differ."""
    each = times_us / np.array([row.batch for row in rows])
    return np.array([each[over] / each[under] for over, under in pairs])


def _table(lines: Lines) -> str:
    rows = [
        (group, str(number), *family.said(), *gpu.said()) for group, (number, family, gpu) in lines.items()
    ]
    return table(_HEAD, rows)


def _settings(row: ImageRow) -> tuple[str, ...]:
    """The groups of a row."""
    mode = "training" if row.training else "inference"
    compiled = (f"{mode}, compiled, all",) if row.compiled else ()
    return (
        f"{mode}, {row.gpu}, {row.layout}{', compiled' if row.compiled else ''}",
        f"{mode}, all",
        *compiled,
    )
