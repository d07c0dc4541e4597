"""The time of each operator in a typical iteration, from a few recorded iterations and others without recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median, median_low

from skyline.trace.phase import BareTimes, Phase
from skyline.trace.record import Record, RecordKind, Trace
from skyline.trace.trial import OpTiming

_LEAST_BARE = 0.3
"""At least this share of a record's duration is its own; the rest may be the overhead of recording."""
_LEAST_SCALE, _MOST_SCALE = 0.5, 1.25
"""Bounds of the factor from the recorded time of a part to its time without recording."""
_Place = tuple[Phase, str, str, int]
"""Phase, module and name of an operator, and its number among the operators that share them in an iteration."""


def operator_times(
    traces: Sequence[Trace], bare: BareTimes
) -> tuple[tuple[OpTiming, ...], dict[Phase, float]]:
    """The operators of a typical iteration with their times, and the interpreter's time between them by phase.

    ``traces`` are recorded iterations, ``bare`` iterations without recording. The time of an operator is the lower
    median over the recorded iterations, because other programs only ever slow it down. Recording takes time for each
    operator, and variants differ in their number of operators (autocast adds many small casts): the times of each
    part of the iteration are scaled to its time without recording.
    """
    iterations = [_operators(trace, mark.index) for trace in traces for mark in trace.iterations]
    usual = _usual_count(iterations, bare)
    times: dict[_Place, list[float]] = {}
    python: dict[Phase, list[float]] = {}
    order: list[_Place] = []
    for operators, python_us in iterations:
        if len(operators) != usual:
            continue
        order = [place for place, _ in operators]
        for place, took_us in operators:
            times.setdefault(place, []).append(took_us)
        for phase, took_us in python_us.items():
            python.setdefault(phase, []).append(took_us)
    took = [(place, median_low(times[place])) for place in order]
    between = {phase: median_low(each) for phase, each in python.items()}
    scales = _scales(took, between, bare)
    return (
        tuple(
            OpTiming(name, phase, module, round(scales[phase] * took_us, 2))
            for (phase, module, name, _), took_us in took
        ),
        {phase: round(scales[phase] * took_us, 2) for phase, took_us in between.items()},
    )


def _usual_count(
    iterations: Sequence[tuple[list[tuple[_Place, float]], dict[Phase, float]]], bare: BareTimes
) -> int:
    """The number of operators that most iterations have; others hold an evaluation or a smaller last batch.

    Of two numbers that are equally frequent, the one whose iterations are nearest to the ``bare`` ones.
    """
    counts = Counter(len(operators) for operators, _ in iterations)
    most = max(counts.values())
    bare_us = 1e3 * median(bare.steps_ms) if bare.steps_ms else 0.0

    def apart(count: int) -> float:
        took_us = [
            sum(us for _, us in operators) + sum(python_us.values())
            for operators, python_us in iterations
            if len(operators) == count
        ]
        return abs(median(took_us) - bare_us)

    return min((count for count, times in counts.items() if times == most), key=apart)


def _operators(trace: Trace, iteration: int) -> tuple[list[tuple[_Place, float]], dict[Phase, float]]:
    """The operators of the script's thread in an iteration with their times, and Python's time by phase."""
    records = [one for one in trace.records if one.iteration == iteration]
    busy: Counter[str] = Counter()
    for record in records:
        busy[record.lane] += int(record.duration_us)
    lane = max(busy, key=lambda one: busy[one], default="")
    seen: Counter[tuple[Phase, str, str]] = Counter()
    operators: list[tuple[_Place, float]] = []
    python: dict[Phase, float] = {}
    for record in sorted(records, key=lambda record: record.start_us):
        if record.lane != lane:
            continue
        if record.kind is RecordKind.PYTHON:
            python[record.phase] = python.get(record.phase, 0.0) + _without_recording_us(record)
            continue
        key = (record.phase, trace.modules[record.module] if record.module >= 0 else "", record.name)
        operators.append(((*key, seen[key]), _without_recording_us(record)))
        seen[key] += 1
    return operators, python


def _without_recording_us(record: Record) -> float:
    return max(_LEAST_BARE * record.duration_us, record.duration_us - record.recording_us)


def _scales(
    took: Sequence[tuple[_Place, float]], python_us: dict[Phase, float], bare: BareTimes
) -> dict[Phase, float]:
    """By phase, the factor from recorded times to times without recording; the phases of one part share it."""
    recorded: Counter[str] = Counter()
    for (phase, *_), took_us in took:
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    for phase, took_us in python_us.items():
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    bare_ms = _bare_ms(bare) if bare.steps_ms else {}
    scales = {
        part: min(_MOST_SCALE, max(_LEAST_SCALE, 1e3 * bare_ms[part] / us))
        for part, us in recorded.items()
        if us > 0 and bare_ms.get(part, 0.0) > 0
    }
    return {phase: scales.get(_PART.get(phase, _REST), 1.0) for phase in Phase}


_REST = "rest"
_PART = {Phase.DATA: "data", Phase.BACKWARD: "backward", Phase.OPTIMIZER: "optimizer"}


def _bare_ms(bare: BareTimes) -> dict[str, float]:
    """The time of each part in ms, scaled so that the parts sum to the median iteration.

    The medians of the parts need not: not all parts are slow in the same iterations.
    """
    known = {"data": bare.data_ms, "backward": bare.backward_ms, "optimizer": bare.optimizer_ms}
    rest = [step - sum(each) for step, *each in zip(bare.steps_ms, *known.values(), strict=True)]
    parts = {**{part: median(ms) for part, ms in known.items()}, _REST: median(rest)}
    together = sum(parts.values())
    whole = median(bare.steps_ms)
    return {part: ms * whole / together for part, ms in parts.items()} if together > 0 else parts
