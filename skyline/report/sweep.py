"""A sweep for other programs, and in sentences: ``skyline.sweep/1``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from pathlib import PurePath
from typing import TYPE_CHECKING

from skyline import units
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.report.basis import when
from skyline.sweep.cause import cause
from skyline.sweep.curve import Faster, Knee, Step, faster, knee, steps

if TYPE_CHECKING:
    # These import the capture, which readers of saved results do not need.
    from skyline.source.number_place import Number
    from skyline.sweep.point import FailedPoint, SweepPoint, Values
    from skyline.sweep.run import Swept
    from skyline.sweep.setting import SweptSetting

SWEEP_SCHEMA = "skyline.sweep/1"
MEASURED, INTERPOLATED = "measured", "interpolated"
"""Provenances of a time; the third is ``predicted``."""
_MOST_STEPS, _MOST_FASTER = 3, 2
"""The largest numbers in sentences; the JSON and the table have all."""
_LEAST_STAIR = 2
_SAME = 0.02
_NOTICED_CORES = 0.5
"""The number of busy cores of other programs from which a note mentions them."""
_STEADY = 0.05
_HOST_BOUND = 0.5
"""The busy share of the time below which a GPU waits for the host more than it works."""


@dataclass(frozen=True, slots=True)
class SweptSettingReport:
    """A setting: the place that sets it, the value in force (null if unknown), and the values asked for."""

    name: str
    file: str
    line: int
    text: str
    value: float | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SweepPointReport:
    """One point; ``values`` are the values of the settings, in their order.

    ``flops`` counts the arithmetic of an iteration; ``utilisation`` is its rate divided by the peak of the
    device. ``busy_share`` is the part of the time in which a kernel runs. ``tile_share``, ``wave_share`` and
    ``aligned_share`` describe the matrix products. Null if unknown. ``fits`` is empty for a measured point.
    ``provenance`` describes the time: measured, interpolated (from values that ran here) or predicted.
    """

    values: tuple[float, ...]
    iteration_ms: Interval
    provenance: str
    throughput: Interval | None
    peak_bytes: int | None
    fits: str
    flops: int | None
    flop_per_s: float | None
    utilisation: float | None
    busy_share: float | None
    tile_share: float | None
    wave_share: float | None
    aligned_share: float | None
    operators: int | None
    parameters: int | None
    now: bool


@dataclass(frozen=True, slots=True)
class SweepStepReport:
    """A change of the time between two values of the first setting, and the trend; both relative to the time before."""

    before: float
    after: float
    change: float
    trend: float
    cause: str


@dataclass(frozen=True, slots=True)
class SweepKneeReport:
    """The value at which the growth changes, and the factors of the time per doubling below and above it."""

    value: float
    below: float
    above: float


@dataclass(frozen=True, slots=True)
class SweepFasterReport:
    """A value with less time than the smaller values from ``first`` on, by up to ``gain`` of theirs."""

    value: float
    first: float
    gain: float


@dataclass(frozen=True, slots=True)
class SweepSeriesReport:
    """The points over the values of the first setting; ``others`` are the values of the other settings."""

    others: tuple[float, ...]
    points: tuple[SweepPointReport, ...]
    steps: tuple[SweepStepReport, ...]
    knee: SweepKneeReport | None
    faster: tuple[SweepFasterReport, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The whole sweep. ``mode`` is measured or predicted; ``left`` points were not reached within the budget.

    ``mode`` describes the figures other than the times; each point has the provenance of its time.
    """

    schema: str
    script: str
    arguments: tuple[str, ...]
    created: str
    mode: str
    device: str
    peak_tflops: float | None
    batch_size: int | None
    settings: tuple[SweptSettingReport, ...]
    series: tuple[SweepSeriesReport, ...]
    failed: tuple[FailedPoint, ...]
    left: int
    interrupted: bool
    spent_s: float
    basis: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the first setting, whose values form the series."""
        return self.settings[0].name


def sweep_report(script: str, arguments: tuple[str, ...], swept: Swept, rounds: int) -> SweepReport:
    """A sweep as ``skyline.sweep/1``."""
    first = swept.first
    prediction = first.prediction if first is not None else None
    predicted = prediction is not None
    groups: dict[Values, list[SweepPoint]] = {}
    for point in swept.points:
        groups.setdefault(point.values[1:], []).append(point)
    name = swept.settings[0].varied.name
    return SweepReport(
        schema=SWEEP_SCHEMA,
        script=script,
        arguments=arguments,
        created=first.created if first is not None else "",
        mode="predicted" if predicted else "measured",
        device=first.environment.device.name if first is not None else "",
        peak_tflops=_peak_tflops(swept.points),
        batch_size=first.batch_size if first is not None else None,
        settings=tuple(map(_setting, swept.settings)),
        series=tuple(
            _series(name, swept.settings, others, points, predicted=predicted)
            for others, points in sorted(groups.items())
        ),
        failed=swept.failed,
        left=swept.left,
        interrupted=swept.interrupted,
        spent_s=swept.spent_s,
        basis=tuple(_basis(swept, rounds)),
        notes=tuple(_notes(swept)),
    )


def values_words(names: Sequence[str], values: Sequence[float]) -> str:
    """``n_embd=64 n_layer=2``."""
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _setting(one: SweptSetting) -> SweptSettingReport:
    place = one.place
    return SweptSettingReport(
        one.varied.name, place.span.file, place.span.line, place.text, place.value, one.varied.values
    )


def _point(point: SweepPoint, settings: Sequence[SweptSetting]) -> SweepPointReport:
    work = point.work
    return SweepPointReport(
        values=point.values,
        iteration_ms=point.iteration_ms,
        provenance=point.provenance.value,
        throughput=point.throughput,
        peak_bytes=point.peak_bytes,
        fits=point.fits,
        flops=work.flops if work else None,
        flop_per_s=point.flop_per_s,
        utilisation=point.utilisation,
        busy_share=work.busy_share if work else None,
        tile_share=work.tile_share if work else None,
        wave_share=work.wave_share if work else None,
        aligned_share=work.aligned_share if work else None,
        operators=work.operators if work else None,
        parameters=work.parameters if work else None,
        now=all(one.place.value == value for one, value in zip(settings, point.values, strict=True)),
    )


def _series(
    name: str,
    settings: Sequence[SweptSetting],
    others: Values,
    points: Sequence[SweepPoint],
    *,
    predicted: bool,
) -> SweepSeriesReport:
    values = [point.values[0] for point in points]
    times = [point.iteration_ms for point in points]
    found = steps(values, times, measured=not predicted)
    alike = not predicted and _overlap(times)
    ran = [at for at, point in enumerate(points) if point.provenance.value == MEASURED]
    bend = knee(values, times, ran)
    better = faster(values, times, measured=bool(ran))
    causes = [
        cause(points[one.before], points[one.after], values[one.before], values[one.after])
        if one.change > 0
        else ""
        for one in found
    ]
    told = [
        *_stair_words(values, found),
        *_step_words(name, values, found, causes),
        *_knee_words(name, values, bend, points),
    ]
    told += _faster_words(name, values, better)
    told = told or [_steady_words(name, values, times, alike=alike)]
    return SweepSeriesReport(
        others=others,
        points=tuple(_point(one, settings) for one in points),
        steps=tuple(
            SweepStepReport(values[one.before], values[one.after], one.change, one.trend, why)
            for one, why in zip(found, causes, strict=True)
        ),
        knee=None if bend is None else SweepKneeReport(values[bend.at], bend.below, bend.above),
        faster=tuple(SweepFasterReport(values[one.at], values[one.first], one.gain) for one in better),
        sentences=(*told, *_utilisation_words(name, points), *_unused_words(name, points)),
    )


def _stair_words(values: Sequence[Number], found: Sequence[Step]) -> Iterator[str]:
    """A remark if the time rises after each multiple of a number that is no artefact of the values' spacing."""
    rises = [one for one in found if one.change > 0]
    whole = [value for value in values if isinstance(value, int)]
    if len(rises) < _LEAST_STAIR or len(whole) < len(values):
        return
    multiple = gcd(*(whole[one.before] for one in rises))
    after = sum(value % multiple == 0 for value in whole[:-1])
    if multiple > gcd(*whole) and after == len(rises):
        ends = dict.fromkeys(_percent(end(one.change for one in rises)) for end in (min, max))
        yield f"After each multiple of {multiple} the time rises, by {' to '.join(ends)}."


def _step_words(
    name: str, values: Sequence[Number], found: Sequence[Step], causes: Sequence[str]
) -> Iterator[str]:
    ordered = sorted(range(len(found)), key=lambda index: -abs(found[index].beyond_trend))
    for index in sorted(ordered[:_MOST_STEPS]):
        one, why = found[index], causes[index]
        verb = "rises" if one.change > 0 else "falls"
        text = f"From {name} {values[one.before]} to {values[one.after]} the time {verb} by {_percent(one.change)}"
        if abs(one.trend) >= _SAME:
            text += f", where the trend is {_percent(one.trend)}"
        yield f"{text}: {why}." if why else f"{text}."
    if len(found) > _MOST_STEPS:
        yield f"{units.plural(len(found) - _MOST_STEPS, 'smaller step')} more: see the marks."


def _knee_words(
    name: str, values: Sequence[Number], bend: Knee | None, points: Sequence[SweepPoint]
) -> Iterator[str]:
    if bend is None:
        return
    text = (
        f"Knee at {name} {values[bend.at]}: doubling the value multiplies the time by {bend.below:.2f} below it, and "
        f"by {bend.above:.2f} above it."
    )
    first, last = (one.work.busy_share if one.work else None for one in (points[0], points[-1]))
    if first is not None and last is not None and first < _HOST_BOUND and last > first:
        text += (
            f" The GPU is busy for {units.format_share(first)} of the time at {values[0]} and for "
            f"{units.format_share(last)} at {values[-1]}: below, the host bounds the time."
        )
    yield text


def _faster_words(name: str, values: Sequence[Number], better: Sequence[Faster]) -> Iterator[str]:
    for one in better[:_MOST_FASTER]:
        first, last = values[one.first], values[one.at - 1]
        smaller = f"{first} to {last}" if first != last else f"{first}"
        yield f"{name} {values[one.at]} takes less time than {smaller}, by up to {_percent(one.gain)}."


def _overlap(times: Sequence[Interval]) -> bool:
    """True if one time lies within the ranges of all."""
    return max(time.low for time in times) <= min(time.high for time in times)


def _steady_words(name: str, values: Sequence[Number], times: Sequence[Interval], *, alike: bool) -> str:
    if len(values) < 2:
        return "One value shows no curve."
    low, high = min(time.value for time in times), max(time.value for time in times)
    if high < low * (1 + _STEADY):
        return f"The time hardly depends on {name}: it differs by {_percent(high / low - 1)} over all values."
    if alike:
        return "The times do not differ beyond their ranges. More rounds (--rounds) make the ranges smaller."
    ratio = times[-1].value / times[0].value
    verb = "grows" if ratio > 1 else "shrinks"
    return f"No step, no knee: from {name} {values[0]} to {values[-1]} the time {verb} to {ratio:.3g} times its value."


def _utilisation_words(name: str, points: Sequence[SweepPoint]) -> Iterator[str]:
    known = [(point.utilisation, point.values[0]) for point in points if point.utilisation is not None]
    (low, at_low), (high, at_high) = min(known, default=(0.0, 0)), max(known, default=(0.0, 0))
    if units.format_share(low) == units.format_share(high):
        return
    yield (
        f"Utilisation is highest at {name} {at_high}, with {units.format_share(high)} of the peak FLOP rate, and "
        f"lowest at {at_low}, with {units.format_share(low)}."
    )


def _unused_words(name: str, points: Sequence[SweepPoint]) -> Iterator[str]:
    """A remark if the setting seems to have no effect."""
    known = {
        (point.peak_bytes, point.work.flops, point.work.operators)
        for point in points
        if point.work is not None
    }
    if len(points) > 2 and len(known) == 1:
        yield f"Neither memory nor arithmetic changes with {name}: it may have no effect in this run."


def _percent(change: float) -> str:
    return units.format_ratio(1 + change) if change >= 9 else units.format_share(abs(change))


def _peak_tflops(points: Sequence[SweepPoint]) -> float | None:
    """The peak rate in the number formats of the work, from the last point with work: it has the most arithmetic."""
    for point in reversed(points):
        if point.work is not None and point.work.ideal_ms:
            return point.work.flops / point.work.ideal_ms / 1e9
    return None


def _basis(swept: Swept, rounds: int) -> Iterator[str]:
    first = swept.first
    ran = sum(point.provenance.value == MEASURED for point in swept.points)
    between = sum(point.provenance.value == INTERPOLATED for point in swept.points)
    if first is not None and first.prediction is not None:
        said = first.prediction
        count = units.plural(len(swept.points), "point")
        on_gpu = first.environment.device.kind != "cpu"
        nothing = "nothing ran on a GPU" if on_gpu else "it computes nothing of the model"
        yield f"{count}, each a trace of shapes: {nothing}. Basis of the times: {said.basis}."
        if said.without_loading:
            yield f"Data loading is not included: {said.without_loading}."
        elif said.loading:
            yield f"{said.loading} All points load at this rate per byte."
        if swept.saved is not None:
            yield (
                f"The times of each kind of operator are fitted to the saved profile of {when(swept.saved.created)}, "
                f"which took {units.format_ms(median(swept.saved.times.steps_ms))} with the present values. Nothing "
                "ran for this sweep."
            )
        elif ran:
            yield (
                f"The script also ran here with {units.plural(ran, 'value')}, in up to {rounds} alternating rounds. "
                "The times of each kind of operator are fitted to these runs; the ratio that remains is interpolated "
                "between them. No file was changed."
            )
    else:
        yield (
            f"{units.plural(ran, 'point')}, measured alternately with the first of them, in up to {rounds} rounds; "
            "ranges show the spread of the rounds. No file was changed."
        )
        if between:
            yield (
                f"{units.plural(between, 'point')}, interpolated between measured ones: a straight line in logarithms. "
                "A step between two measured values is not seen."
            )
    peak = _peak_tflops(swept.points)
    if peak is not None:
        kind = (
            "the device's stated peak"
            if first is not None and first.environment.device.kind != "cpu"
            else ("the peak of the processor's vector units at the nominal clock")
        )
        yield f"Utilisation counts products, convolutions and attention, relative to {peak:.3g} TFLOP/s, {kind}."
    if any(point.work is not None and point.work.tile_share is not None for point in swept.points):
        yield "Tiles and waves are those of a model of the libraries' kernels, weighted by arithmetic."


def _notes(swept: Swept) -> Iterator[str]:
    if swept.interrupted:
        missing = (
            f"{units.plural(swept.left, 'point')} left out" if swept.left else "the last rounds left out"
        )
        yield f"The sweep was interrupted: {missing}."
    elif swept.ended:
        yield f"The sweep ended early, with {units.plural(swept.left, 'point')} left out: {swept.ended}"
    elif any(point.provenance.value == INTERPOLATED for point in swept.points) and _is_measured(swept):
        yield "The time budget of the sweep ran out: some points are interpolated. Raise --budget to measure them."
    if not swept.interrupted and not swept.ended and swept.left:
        yield (
            f"The time budget of the sweep ran out: {units.plural(swept.left, 'point')} left out. Raise "
            "--budget to include them."
        )
    if swept.runs_failed:
        so = "" if swept.saved is not None else ", so that no time is measured"
        yield f"No value could run here{so}: {swept.runs_failed}"
    if swept.others_cores >= _NOTICED_CORES:
        yield f"Other programs used {swept.others_cores:.1f} cores: times are longer than on an idle machine."
    if any(point.fits == "too large" for point in swept.points):
        yield "Points that exceed the memory show the time of a device with enough memory."
    if swept.first is not None:
        yield from swept.first.notes


def _is_measured(swept: Swept) -> bool:
    return swept.first is None or swept.first.prediction is None


def script_name(report: SweepReport) -> str:
    """The script and its arguments."""
    return " ".join((PurePath(report.script).name, *report.arguments))
