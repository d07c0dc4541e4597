"""NVIDIA's published scaling from 1 to 8 GPUs, predicted from the throughput of one GPU and the model's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot
from typing import Any

import numpy as np
from plan_rows import cluster_of
from result_file import table
from scaling_rows import ScalingPair

from skyline.plan.collective import Fabric, all_reduce_us, group_of
from skyline.plan.constant import EXPOSED_EXCHANGE, IMAGE_MIXED, IMAGE_WAITING, WAITING
from skyline.plan.kernel_time import PartTime, WorkTime
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.step import step_time
from skyline.plan.strategy import Precision, Strategy
from skyline.plan.work import Work

_RANKS = 8
_BLOCKS = 16
_BACKWARD = 2 / 3
_GRID = {
    "waiting": (0.005, 0.01, 0.015, 0.02, 0.03, 0.04),
    "images": (0.03, 0.035, 0.04, 0.045, 0.05, 0.055, 0.06, 0.065, 0.07),
    "mixed": (2.0, 2.5, 3.0, 3.5, 4.0),
    "exchange": (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5),
}
EXPLAINED = """Scaling efficiency from 1 to 8 GPUs of one node (NVIDIA's examples), in percentage points. It
is predicted from the throughput of one GPU, the batch and the number of parameters. The planner knows nothing
else of a profiled script. *linear*: the error of an efficiency of 100 %. *left out*: the error with the four
constants fitted on the other models, and in the last column on the other training scripts. The image models
share one script, so without it nothing is known of images. *in range*: the published figure is in the range
of the constants. *bias*: predicted minus published. The form of the law was chosen after all rows were seen.

Rows that contradict themselves count only in *all rows*. They have an efficiency above 110 % at the same
batch per GPU, or a scaling that differs from the throughputs in the same table."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The constants of the law: a step of eight GPUs takes (1 + waiting + exchange) times a step of one."""

    waiting: float
    images: float
    mixed: float
    exchange: float

    @classmethod
    def shipped(cls) -> Shares:
        """The constants of the planner."""
        return cls(WAITING.value, IMAGE_WAITING.value, IMAGE_MIXED.value, EXPOSED_EXCHANGE.value)

    def efficiency(self, pair: ScalingPair) -> float:
        """The efficiency by the law, in closed form."""
        waiting = self.images * (self.mixed if pair.mixed else 1.0) if pair.images else self.waiting
        return 1 / (1 + waiting + self.exchange * exchange_share(pair))


@dataclass(frozen=True, slots=True)
class Scaling:
    """The published and predicted efficiency of a pair, by the planner and by constants from the other models."""

    pair: ScalingPair
    predicted: float
    low: float
    high: float
    other_models: float
    other_code: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.pair.published)


def scalings(pairs: Sequence[ScalingPair]) -> list[Scaling]:
    """The predictions of all pairs. Constants are never fitted on rows that contradict themselves."""
    sound = [one for one in pairs if not one.contradiction]
    models = _left_out(pairs, sound, lambda one: one.model)
    codes = _left_out(pairs, sound, lambda one: one.code)
    return [
        Scaling(pair, planned_efficiency(pair), *_range(pair), model, code)
        for pair, model, code in zip(pairs, models, codes, strict=True)
    ]


def exchange_share(pair: ScalingPair) -> float:
    """The time of an all-reduce of float32 gradients over a step of one GPU. 0 if size or batch are not known."""
    if pair.parameters is None or pair.step_us is None:
        return 0.0
    cluster = cluster_of(pair.gpu, _RANKS)
    group = group_of(cluster, _RANKS, 1)
    return all_reduce_us(Fabric.of(cluster), group, 4 * pair.parameters) / pair.step_us


def planned_efficiency(pair: ScalingPair) -> float:
    """The efficiency by the planner: the measured step of one GPU in equal blocks, on eight ranks."""
    known = pair.parameters is not None and pair.step_us is not None
    # With an unknown length of the step, messages take no share of it.
    step_us = pair.step_us if known and pair.step_us else 1e12
    forward, backward = (step_us * share / _BLOCKS for share in (1 - _BACKWARD, _BACKWARD))
    idle = PartTime(WorkTime(), WorkTime(), WorkTime())
    part = LayerPart(parameters=(pair.parameters or 0.0) / _BLOCKS if known else 0.0)
    work = Work(
        Layers(part, _BLOCKS, LayerPart(), LayerPart(), single_device=True, host_images=pair.images),
        PartTime(WorkTime(other_us=forward), WorkTime(other_us=backward), WorkTime()),
        idle,
        idle,
        single_device=True,
    )
    precision = Precision.HALF if pair.mixed else Precision.SINGLE
    step = step_time(work, Strategy(data=_RANKS, precision=precision), cluster_of(pair.gpu, _RANKS))
    # The measured step includes the update.
    return step_us / (step.compute_us + step.exposed_us)


def _range(pair: ScalingPair) -> tuple[float, float]:
    """The range of the efficiency, from each constant at its ends, added in quadrature."""
    middle = Shares.shipped()
    at = middle.efficiency(pair)
    ends: list[float] = []
    for side in ("high", "low"):
        moved = (
            Shares(getattr(WAITING, side), getattr(IMAGE_WAITING, side), middle.mixed, middle.exchange),
            Shares(middle.waiting, middle.images, getattr(IMAGE_MIXED, side), middle.exchange),
            Shares(middle.waiting, middle.images, middle.mixed, getattr(EXPOSED_EXCHANGE, side)),
        )
        away = hypot(*(one.efficiency(pair) - at for one in moved))
        ends.append(at - away if side == "high" else min(1.0, at + away))
    return ends[0], ends[1]


def _left_out(
    pairs: Sequence[ScalingPair], sound: Sequence[ScalingPair], group: Callable[[ScalingPair], str]
) -> list[float]:
    """The prediction of each pair by constants fitted on the pairs of all other groups."""
    grid = [Shares(*one) for one in product(*_GRID.values())]
    share = np.array([exchange_share(one) for one in sound])
    images, mixed = (np.array([getattr(one, name) for one in sound]) for name in ("images", "mixed"))
    published = np.array([one.published for one in sound])
    constants = np.array([[one.waiting, one.images, one.mixed, one.exchange] for one in grid])
    own = constants[:, 1:2] * np.where(mixed, constants[:, 2:3], 1.0)
    lost = np.where(images, own, constants[:, 0:1]) + constants[:, 3:4] * share
    errors = np.abs(1 / (1 + lost) - published)
    # Both precisions have equal weight.
    weights = np.where(mixed, 1 / max(1, mixed.sum()), 1 / max(1, (~mixed).sum()))
    names = np.array([group(one) for one in sound])
    best: dict[str, Shares] = {}
    for name in {group(one) for one in pairs}:
        others = names != name
        if not others.any():
            best[name] = Shares.shipped()
            continue
        fitted = grid[int((errors * weights * others).sum(axis=1).argmin())]
        if not (images & others).any():
            fitted = Shares(fitted.waiting, fitted.waiting, 1.0, fitted.exchange)
        best[name] = fitted
    return [best[group(one)].efficiency(one) for one in pairs]


def scaling_summary(rows: Sequence[Scaling]) -> dict[str, dict[str, float | int]]:
    """The figures by group, in percentage points."""
    groups: dict[str, list[Scaling]] = {}
    for precision in ("single", "mixed"):
        chosen = [one for one in rows if one.pair.mixed == (precision == "mixed")]
        sound = [one for one in chosen if not one.pair.contradiction]
        groups[f"{precision}, all rows"] = chosen
        groups[precision] = sound
        for one in sorted(sound, key=lambda one: (one.pair.code, one.pair.gpu)):
            code = one.pair.code.rpartition("/")[2]
            groups.setdefault(f"{precision}, {code}, {one.pair.gpu[:4]}", []).append(one)
    # The summary of each precision comes before its groups.
    ordered = sorted((name for name in groups if groups[name]), key=lambda name: name.count(",") > 1)
    ordered.sort(key=lambda name: name.endswith("all rows"), reverse=True)
    return {name: _figures(groups[name]) for name in ordered}


def _figures(rows: Sequence[Scaling]) -> dict[str, float | int]:
    published = np.array([one.pair.published for one in rows])

    def error(values: Sequence[float]) -> float:
        return float(np.mean(np.abs(np.array(values) - published)) * 100)

    predicted = [one.predicted for one in rows]
    return {
        "pairs": len(rows),
        "published": float(np.mean(published) * 100),
        "mean_points": error(predicted),
        "bias_points": float(np.mean(np.array(predicted) - published) * 100),
        "within_5_points": float(np.mean(np.abs(np.array(predicted) - published) <= 0.05)),
        "inside_range": float(np.mean([one.low <= one.pair.published <= one.high for one in rows])),
        "mean_points_linear": error([1.0] * len(rows)),
        "mean_points_other_models": error([one.other_models for one in rows]),
        "mean_points_other_scripts": error([one.other_code for one in rows]),
    }


def scaling_table(figures: dict[str, Any]) -> str:
    """The figures as a table of the page."""
    head = ("rows", "pairs", "published", "mean error", "bias", "within 5", "in range", "linear", "left out: model",
            "script")  # fmt: skip
    body = [
        (
            name,
            str(one["pairs"]),
            f"{one['published']:.0f} %",
            f"{one['mean_points']:.1f}",
            f"{one['bias_points']:+.1f}",
            f"{one['within_5_points'] * 100:.0f} %",
            f"{one['inside_range'] * 100:.0f} %",
            f"{one['mean_points_linear']:.1f}",
            f"{one['mean_points_other_models']:.1f}",
            f"{one['mean_points_other_scripts']:.1f}",
        )
        for name, one in figures.items()
    ]
    return table(head, body)
