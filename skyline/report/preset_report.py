"""The measures of a preset as rows, ``skyline.plan-preset/1``."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Literal

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.money import bill
from skyline.plan.preset import Ladder, Preset, TimedJob, ladder
from skyline.predict.operator_time import OperatorPredictor
from skyline.report.plan import PROVENANCE

PRESET_SCHEMA = "skyline.plan-preset/1"
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class PresetStep:
    """A training with some of the measures, at its best micro-batch. Times in ms, memory in bytes."""

    label: str
    sequence: int
    batch: int
    step_ms: Interval
    tokens_per_s: Interval
    """Tokens per second over the whole training, with checkpoints and validation."""
    memory_bytes: Interval
    hours: Interval
    """The time of the whole training."""
    usd: Interval | None


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One measure. Gains are ratios of tokens per second; null if one of the two trainings does not fit the GPU."""

    name: str
    title: str
    semantics: Literal["exact", "numerics", "convergence", "model"]
    step: PresetStep | None
    """The training with the measures up to this one."""
    gain: float | None
    """The gain over the previous row."""
    alone: float | None
    """The gain of this measure alone over the start."""
    without: float | None
    """The gain of the whole stack over the stack without this measure."""


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """A published figure, in words, and its source."""

    figure: str
    source: str


@dataclass(frozen=True, slots=True)
class PresetReport:
    """``skyline.plan-preset/1``. ``provenance`` holds for every figure except those in ``published``.

    ``tokens`` is the amount of the whole training, ``amount`` names its origin. ``left_out`` are the measures
    that are not part of the question.
    """

    schema: str
    provenance: str
    preset: str
    title: str
    cluster: str
    gpu: str
    gpus: int
    source: str
    tokens: float
    amount: str
    start: PresetStep | None
    measures: tuple[MeasureRow, ...]
    left_out: tuple[str, ...]
    joint: PresetStep | None
    gain: float | None
    """The gain of all measures together over the start."""
    product: float | None
    """The product of the single gains: the joint gain if the measures did not depend on each other."""
    steps_a_day: float | None
    published: tuple[PublishedReport, ...]


def preset_report(
    preset: Preset,
    cluster: ClusterSpec,
    predictor: OperatorPredictor,
    left_out: Collection[str] = (),
    tokens: float | None = None,
) -> PresetReport:
    """Times the measures of a preset on a cluster, one by one and together.

    Raises:
        UsageError: a measure to leave out is not in the preset.
    """
    names = [one.name for one in preset.measures]
    unknown = [name for name in left_out if name not in names]
    if unknown:
        raise UsageError(f"{preset.name} has no measure {unknown[0]}", hint=f"Available: {', '.join(names)}.")
    found = ladder(preset, cluster, predictor, left_out)
    amount = tokens or preset.tokens
    rows = _rows(found, amount)
    alone = [row.alone for row in rows]
    return PresetReport(
        PRESET_SCHEMA,
        PROVENANCE,
        preset.name,
        preset.title,
        cluster.name,
        cluster.gpu.name,
        cluster.gpus,
        cluster.source,
        amount,
        "" if tokens else preset.amount,
        _step(found.start, amount),
        rows,
        tuple(name for name in names if name in left_out),
        _step(found.joint, amount),
        _gain(found.joint, found.start),
        prod(one for one in alone if one is not None) if alone and None not in alone else None,
        None if found.joint is None else _DAY_S * 1e6 / found.joint.step_us.value * (1 - found.joint.stopped),
        tuple(PublishedReport(one.figure, one.source) for one in preset.published),
    )


def _rows(found: Ladder, tokens: float) -> tuple[MeasureRow, ...]:
    before = [found.start, *(rung.stacked for rung in found.rungs)]
    return tuple(
        MeasureRow(
            rung.measure.name,
            rung.measure.title,
            rung.measure.semantics.value,
            _step(rung.stacked, tokens),
            _gain(rung.stacked, last),
            _gain(rung.alone, found.start),
            _gain(found.joint, rung.without),
        )
        for rung, last in zip(found.rungs, before, strict=False)
    )


def _gain(one: TimedJob | None, other: TimedJob | None) -> float | None:
    if one is None or other is None:
        return None
    return one.tokens_per_s.value / other.tokens_per_s.value


def _step(one: TimedJob | None, tokens: float) -> PresetStep | None:
    if one is None:
        return None
    cost = bill(one.cluster, tokens, one.tokens_per_s)
    return PresetStep(
        one.strategy.label(),
        one.job.model.sequence,
        one.job.batch,
        one.step_us.scaled(1e-3),
        one.tokens_per_s,
        one.memory.peak,
        cost.hours,
        cost.usd,
    )
