"""Assigns times to a traced profile: operators from a predictor, the host's share from typical costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

from skyline.graph.build import build, main_lane
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.fetching_costs import FetchingCosts
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorPredictor, OperatorTime, host_cost
from skyline.predict.schedule import Schedule
from skyline.simulate.engine import simulate
from skyline.simulate.moments import billed_phases, billed_us
from skyline.trace.facts import Device, TimedRead
from skyline.trace.profile import BareTimes, Prediction, Profile
from skyline.trace.record import OperatorShape, Phase, Record, RecordKind, Trace
from skyline.units import format_ms

_ITERATIONS = 2
_HOST = "host"
_READING = "reading"
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
    schedule, times, loading = _timed_records(traced, gpu, predictor, cost)
    values = [one.time_us.value for one in times]
    trace = schedule.trace(traced.trace, values, cost, _ITERATIONS)
    iteration_ms = _iteration(schedule, times, values, cost)
    prediction = Prediction(
        gpu.name,
        predictor.name,
        predictor.basis(gpu),
        iteration_ms,
        _unmeasured(schedule.records, times),
        without_loading=traced.untimed_loading,
        loading=loading.basis if loading is not None else "",
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


def group_times_us(traced: Profile, gpu: GpuSpec, predictor: OperatorPredictor) -> dict[str, Interval]:
    """The time in µs of each group of records whose errors are correlated, summed over the traced iteration.

    On a processor, which runs one record after another, the groups sum to the iteration.
    """
    _, times, _ = _timed_records(traced, gpu, predictor, host_cost(predictor, gpu))
    sums: dict[str, tuple[float, float, float]] = {}
    for one in times:
        before = sums.get(one.group, (0.0, 0.0, 0.0))
        value, low, high = (total + more for total, more in zip(before, one.time_us.ends, strict=True))
        sums[one.group] = value, low, high
    return {group: Interval(*ends) for group, ends in sums.items()}


def _timed_records(
    traced: Profile, gpu: GpuSpec, predictor: OperatorPredictor, cost: HostCost
) -> tuple[Schedule, list[_Timed], Loading | None]:
    """The records of the first iteration with their times, and the loading of its batches if it was timed."""
    first = min((mark.index for mark in traced.trace.iterations), default=0)
    schedule = Schedule.of([record for record in traced.trace.records if record.iteration == first])
    times = _times(schedule.records, traced, gpu, predictor, cost)
    loading = Loading.of(traced, in_workers=not gpu.is_processor)
    if loading is not None:
        times = _with_loading(times, loading, schedule, traced, cost)
    return schedule, times, loading


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
    for record in records:
        shape = shapes[record.shape] if 0 <= record.shape < len(shapes) else None
        answer = answers.get((record.shape, record.kind is RecordKind.COPY))
        if record.kind is RecordKind.DATA and _read(traced, record) is not None:
            found.append(_Timed(Interval.exact(0.0), _READING, True))
        elif record.kind is RecordKind.DATA:
            # Reading the repeated samples would take time as well.
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


def _with_loading(
    times: list[_Timed], loading: Loading, schedule: Schedule, traced: Profile, cost: HostCost
) -> list[_Timed]:
    """The times with the script's time in its loader, divided among the records like the reading of the batches."""
    rest_us = schedule.place([one.time_us.value for one in times], cost)[2] + cost.wait_us
    spent = loading.on_thread_us(rest_us)
    reads: Counter[TimedRead] = Counter()
    inside = [
        _read(traced, record) if record.kind is RecordKind.DATA else None for record in schedule.records
    ]
    reads.update(read for read in inside if read is not None)
    made = list(times)
    for index, read in enumerate(inside):
        if read is not None:
            share = read.took_us / reads[read] / loading.read_us if loading.read_us else 1 / reads.total()
            made[index] = replace(times[index], time_us=spent.scaled(share))
    return made


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
    """The timed reads of the batch of a record. None if the time to read such batches is unknown."""
    return next((one for one in traced.timed_reads if one.start_us <= record.start_us < one.end_us), None)


def _copy(record: Record, shape: OperatorShape) -> OperatorShape:
    """The shape of a copy with its bytes on the bus: the operator reads and writes the same bytes."""
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
    # Each group alone keeps the sum above zero. Together they must not subtract more than the total.
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


_READ = (0.6, 1.6)
"""Assumed range of the ratio between two times of reading the same data."""
_COSTS = FetchingCosts()


@dataclass(frozen=True, slots=True)
class Loading:
    """The batches of one iteration: the time of one process to read them, and the number of processes.

    With workers, each is assumed to have a core, because the processor of the GPU's machine is unknown.
    """

    read_us: float
    workers: int
    tensor_bytes: tuple[int, ...]
    batches: int

    @classmethod
    def of(cls, traced: Profile, *, in_workers: bool) -> Loading | None:
        """The loading of a traced script. None if no batch of the iteration was timed.

        Without ``in_workers``, the script's own process reads the batches, whatever its loader requests.
        """
        if not traced.timed_reads:
            return None
        loader = max(traced.loaders, key=lambda one: one.fetches_per_iteration, default=None)
        reads = traced.timed_reads
        return cls(
            sum(read.took_us for read in reads),
            loader.num_workers if in_workers and loader is not None else 0,
            tuple(size for read in reads for size in read.tensor_bytes),
            max(1, sum(bool(read.tensor_bytes) for read in reads)),
        )

    @property
    def basis(self) -> str:
        """The origin of the time, as a sentence."""
        whole = f"{self.batches} batches" if self.batches > 1 else "a batch"
        read = f"Data loading: one process of this machine reads {whole} in {format_ms(self.read_us / 1e3)}, timed here"
        if self.workers == 0:
            return f"{read}; the script's own process does it."
        if self.workers == 1:
            return f"{read}; the DataLoader's worker does it."
        return f"{read}; the DataLoader's {self.workers} workers share this work, with a core each (assumed)."

    @property
    def taking_us(self) -> float:
        """The time of the script's thread to take the batches of an iteration from its workers."""
        return self._each(_COSTS.taken_us)

    def on_thread_us(self, rest_us: float) -> Interval:
        """Time of an iteration that the script's thread spends in its loader. ``rest_us`` is the rest of the iteration.

        With a queue of batches, an iteration takes as long as the slower side: the script, or all of its
        workers.
        """
        if self.workers == 0:
            return Interval(self.read_us, self.read_us * _READ[0], self.read_us * _READ[1])
        taking_us = self.taking_us
        sending_us = self._each(_COSTS.sent_us)

        def waited(factor: float) -> float:
            made_us = (self.read_us * factor + sending_us) / self.workers
            return max(taking_us, made_us - rest_us)

        return Interval(waited(1.0), waited(_READ[0]), waited(_READ[1]))

    def _each(self, cost: Callable[[float, int], float]) -> float:
        tensors = len(self.tensor_bytes) / self.batches
        return self.batches * cost(sum(self.tensor_bytes) / self.batches, round(tensors))
