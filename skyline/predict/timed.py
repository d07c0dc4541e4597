"""Assigns times to a traced profile: operators from a predictor, the host's share from typical costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from skyline.graph.build import build, main_lane
from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorPredictor, OperatorTime, host_cost
from skyline.predict.schedule import Schedule
from skyline.simulate.billing import billed_phases, billed_us
from skyline.simulate.engine import simulate
from skyline.trace.facts import Device
from skyline.trace.phase import Phase
from skyline.trace.prediction import Prediction
from skyline.trace.profile import BareTimes, Profile
from skyline.trace.record import Record, RecordKind, Trace
from skyline.trace.shape import OperatorShape
from skyline.trace.timed_read import TimedRead

_ITERATIONS = 2
_HOST = "host"
_READING = "reading"
_READ = (0.6, 1.6)
"""Assumed factor between the times of reading the same data twice."""
_NOMINAL_US = 1.0
_AS_TF32 = ("high", "medium")
_PRODUCTS = ("::mm", "::addmm", "::bmm", "::baddbmm", "::linear", "::matmul")


@dataclass(frozen=True, slots=True)
class _Timed:
    """The time of one record, and the name of the group with which its error is correlated."""

    time_us: Interval
    group: str
    measured: bool


def timed(
    traced: Profile, gpu: GpuSpec, predictor: OperatorPredictor, cost: HostCost | None = None
) -> Profile:
    """The profile with predicted times on ``gpu``; the traced iteration represents all iterations.

    Errors within a group of operators are assumed fully correlated, errors of different groups independent. Each group
    in turn is set to its low and high end, and the resulting changes of the iteration are added in quadrature.
    """
    cost = cost or host_cost(predictor, gpu)
    first = min((mark.index for mark in traced.trace.iterations), default=0)
    schedule = Schedule.of([record for record in traced.trace.records if record.iteration == first])
    times = _times(schedule.records, traced, gpu, predictor, cost)
    values = [one.time_us.value for one in times]
    trace = schedule.trace(traced.trace, values, cost, _ITERATIONS)
    iteration_ms = _iteration(schedule, times, values, cost)
    prediction = Prediction(
        gpu.name, predictor.name, predictor.basis(gpu), iteration_ms, _unmeasured(schedule.records, times)
    )
    environment = replace(
        traced.environment,
        device=Device(gpu.full_name, "cpu" if gpu.is_processor else "cuda"),
        memory_capacity_bytes=gpu.memory_bytes,
    )
    return replace(
        traced,
        mode="predicted",
        environment=environment,
        trace=trace,
        times=_bare(trace, iteration_ms.value),
        recorded_ms=(),
        prediction=prediction,
    )


def _times(
    records: Sequence[Record],
    traced: Profile,
    gpu: GpuSpec,
    predictor: OperatorPredictor,
    cost: HostCost,
) -> list[_Timed]:
    """One time per record; each distinct shape is predicted once."""
    shapes = traced.trace.shapes
    asked: dict[tuple[int, bool], OperatorShape] = {}
    for record in records:
        if record.kind in (RecordKind.KERNEL, RecordKind.COPY) and record.shape >= 0:
            copied = record.kind is RecordKind.COPY
            shape = shapes[record.shape]
            asked[record.shape, copied] = (
                _copy(record, shape) if copied else in_allowed_format(shape, traced, gpu)
            )
    answers: dict[tuple[int, bool], OperatorTime] = dict(
        zip(asked, predictor.predict(tuple(asked.values()), gpu), strict=True)
    )
    found: list[_Timed] = []
    reads: dict[TimedRead, float] = {}
    for record in records:
        shape = shapes[record.shape] if 0 <= record.shape < len(shapes) else None
        answer = answers.get((record.shape, record.kind is RecordKind.COPY))
        if record.kind is RecordKind.DATA and (read := _read(traced, record)) is not None:
            share = reads.setdefault(read, _share(records, read))
            found.append(_Timed(Interval(share, share * _READ[0], share * _READ[1]), _READING, True))
        elif record.kind is RecordKind.DATA:
            # Repeated samples would have taken the time to read them, too.
            stands_for = next(
                (one.times for one in traced.repeated_reads if one.start_us <= record.start_us < one.end_us),
                1.0,
            )
            found.append(_Timed(cost.of(record, shape).scaled(stands_for), _HOST, True))
        elif record.kind not in (RecordKind.KERNEL, RecordKind.COPY):
            found.append(_Timed(cost.of(record, shape), _HOST, True))
        elif answer is not None:
            found.append(_Timed(answer.time_us, answer.group, answer.measured))
        else:
            found.append(_Timed(Interval.exact(_NOMINAL_US), _HOST, False))
    return found


def in_allowed_format(shape: OperatorShape, traced: Profile, gpu: GpuSpec) -> OperatorShape:
    """A float32 product in TF32 if the script allows it and the GPU supports it; convolutions use TF32 by default."""
    settings = traced.settings
    if (
        settings is None
        or settings.matmul_precision not in _AS_TF32
        or not gpu.tflops_tf32
        or not shape.operator.endswith(_PRODUCTS)
    ):
        return shape
    return replace(shape, dtypes=tuple("tfloat32" if one == "float32" else one for one in shape.dtypes))


def _read(traced: Profile, record: Record) -> TimedRead | None:
    """The batch of a record, if the time to read such batches is known."""
    return next((one for one in traced.timed_reads if one.start_us <= record.start_us < one.end_us), None)


def _share(records: Sequence[Record], read: TimedRead) -> float:
    """The share of each record in the time to read a batch."""
    inside = (one.kind is RecordKind.DATA and read.start_us <= one.start_us < read.end_us for one in records)
    return read.took_us / max(1, sum(inside))


def _copy(record: Record, shape: OperatorShape) -> OperatorShape:
    """The bytes on the bus: the operator reads on one side and writes the same bytes on the other."""
    return replace(shape, operator=record.name, flops=0, bytes_moved=max(1, shape.bytes_moved // 2))


def _iteration(
    schedule: Schedule, times: Sequence[_Timed], values: Sequence[float], cost: HostCost
) -> Interval:
    def iteration_us(durations: Sequence[float]) -> float:
        return schedule.place(durations, cost)[2] + cost.wait_us

    value = iteration_us(values)
    below = above = 0.0
    for group in sorted({one.group for one in times}):
        low = [one.time_us.low if one.group == group else one.time_us.value for one in times]
        high = [one.time_us.high if one.group == group else one.time_us.value for one in times]
        below += (value - iteration_us(low)) ** 2
        above += (iteration_us(high) - value) ** 2
    # Each group alone keeps the sum above zero; together they must not subtract more than the total.
    least = iteration_us([one.time_us.low for one in times])
    return Interval(value, max(least, value - sqrt(below)), value + sqrt(above)).scaled(1e-3)


def _unmeasured(records: Sequence[Record], times: Sequence[_Timed]) -> float:
    on_gpu = [one for record, one in zip(records, times, strict=True) if record.kind is RecordKind.KERNEL]
    total = sum(one.time_us.value for one in on_gpu)
    return sum(one.time_us.value for one in on_gpu if not one.measured) / total if total else 0.0


def _bare(trace: Trace, iteration_ms: float) -> BareTimes:
    """The iteration and its parts: each moment belongs to the GPU's work, and to the host while the GPU is idle."""
    lane = main_lane(trace)
    timeline = simulate(build(trace))
    phases = billed_phases(timeline, billed_us(timeline, lane))
    factor = iteration_ms / phases.total if phases.total else 0.0

    def part(phase: Phase) -> tuple[float, ...]:
        return (phases[phase] * factor,)

    return BareTimes((iteration_ms,), part(Phase.DATA), part(Phase.BACKWARD), part(Phase.OPTIMIZER))
