"""From the iterations that a script computed in another manner to what each of its works takes then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median, median_low

from skyline.capture.events import StepRow
from skyline.trace.iteration_trial import IterationTrial, OpTiming
from skyline.trace.phase import Phase
from skyline.trace.record import Record, RecordKind, Trace

_LEAST_BARE = 0.3
"""However much recording had to note on a record, this share of its time was its own."""
_LEAST_SCALE, _MOST_SCALE = 0.5, 1.25
"""Bounds of what brings the recorded time of a part to its bare one."""
_Place = tuple[Phase, str, str, int]
"""Phase, module and name of a work, and the how many-eth of these in its iteration."""


def iteration_trial(
    threads: int,
    number_format: str,
    traces: Sequence[Trace],
    rows: Sequence[StepRow],
    batch_size: int | None = None,
) -> IterationTrial:
    """What each work takes, by recordings of a few iterations and bare ``rows`` of others.

    Of all times that in the lower middle counts, since something else slows all of them at times. Recording takes
    time by what it has to note, which is another number in another manner (casts are small operators by the dozen):
    each part of the iteration is brought to what it takes bare.
    """
    iterations = [_works(trace, mark.index) for trace in traces for mark in trace.iterations]
    usual = _usual_length(iterations, rows)
    times: dict[_Place, list[float]] = {}
    python: dict[Phase, list[float]] = {}
    order: list[_Place] = []
    for works, python_us in iterations:
        if len(works) != usual:
            continue
        order = [place for place, _ in works]
        for place, took_us in works:
            times.setdefault(place, []).append(took_us)
        for phase, took_us in python_us.items():
            python.setdefault(phase, []).append(took_us)
    took = [(place, median_low(times[place])) for place in order]
    between = {phase: median_low(each) for phase, each in python.items()}
    scales = _scales(took, between, rows)
    return IterationTrial(
        threads,
        number_format,
        tuple(
            OpTiming(name, phase, module, round(scales[phase] * took_us, 2))
            for (phase, module, name, _), took_us in took
        ),
        {phase: round(scales[phase] * took_us, 2) for phase, took_us in between.items()},
        batch_size,
    )


def _usual_length(
    iterations: Sequence[tuple[list[tuple[_Place, float]], dict[Phase, float]]], rows: Sequence[StepRow]
) -> int:
    """How many works most iterations have, an evaluation or the rest of the data in one of them left out.

    Of two that are alike in number, those that take most nearly what the bare ``rows`` do.
    """
    counts = Counter(len(works) for works, _ in iterations)
    most = max(counts.values())
    bare_us = 1e3 * median(row.step_ms for row in rows) if rows else 0.0

    def apart(length: int) -> float:
        took_us = [
            sum(us for _, us in works) + sum(python_us.values())
            for works, python_us in iterations
            if len(works) == length
        ]
        return abs(median(took_us) - bare_us)

    return min((length for length, count in counts.items() if count == most), key=apart)


def _works(trace: Trace, iteration: int) -> tuple[list[tuple[_Place, float]], dict[Phase, float]]:
    """What the script's thread did in an iteration, in order, and how long; and Python's time by phase."""
    records = [one for one in trace.records if one.iteration == iteration]
    busy: Counter[str] = Counter()
    for record in records:
        busy[record.lane] += int(record.duration_us)
    lane = max(busy, key=lambda one: busy[one], default="")
    seen: Counter[tuple[Phase, str, str]] = Counter()
    works: list[tuple[_Place, float]] = []
    python: dict[Phase, float] = {}
    for record in sorted(records, key=lambda record: record.start_us):
        if record.lane != lane:
            continue
        if record.kind is RecordKind.PYTHON:
            python[record.phase] = python.get(record.phase, 0.0) + _without_recording_us(record)
            continue
        key = (record.phase, trace.modules[record.module] if record.module >= 0 else "", record.name)
        works.append(((*key, seen[key]), _without_recording_us(record)))
        seen[key] += 1
    return works, python


def _without_recording_us(record: Record) -> float:
    return max(_LEAST_BARE * record.duration_us, record.duration_us - record.recording_us)


def _scales(
    took: Sequence[tuple[_Place, float]], python_us: dict[Phase, float], rows: Sequence[StepRow]
) -> dict[Phase, float]:
    """By phase, what its recorded times are to be multiplied with: all phases of one bare part alike."""
    recorded: Counter[str] = Counter()
    for (phase, *_), took_us in took:
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    for phase, took_us in python_us.items():
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    bare_ms = _bare_ms(rows) if rows else {}
    scales = {
        part: min(_MOST_SCALE, max(_LEAST_SCALE, 1e3 * bare_ms[part] / us))
        for part, us in recorded.items()
        if us > 0 and bare_ms.get(part, 0.0) > 0
    }
    return {phase: scales.get(_PART.get(phase, _REST), 1.0) for phase in Phase}


_REST = "rest"
_PART = {Phase.DATA: "data", Phase.BACKWARD: "backward", Phase.OPTIMIZER: "optimizer"}


def _bare_ms(rows: Sequence[StepRow]) -> dict[str, float]:
    """What each part takes, so that together they are a typical iteration: not all parts are slow at the same time."""
    parts = {
        "data": median(row.data_ms for row in rows),
        "backward": median(row.backward_ms for row in rows),
        "optimizer": median(row.optimizer_ms for row in rows),
        _REST: median(row.step_ms - row.data_ms - row.backward_ms - row.optimizer_ms for row in rows),
    }
    together = sum(parts.values())
    whole = median(row.step_ms for row in rows)
    return {part: ms * whole / together for part, ms in parts.items()} if together > 0 else parts
