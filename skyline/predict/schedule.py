"""Schedules the records of a traced iteration in time: the host launches, the GPU follows, waits join them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from skyline.lazy_dataclass import dataclass
from skyline.predict.host_cost import HostCost
from skyline.trace.record import Allocation, IterationMark, Phase, Record, RecordKind, Trace

_DEVICE_KINDS = frozenset({RecordKind.KERNEL, RecordKind.COPY})
END_OF_ITERATION = "cudaDeviceSynchronize"
"""Each iteration is assumed to wait for its own GPU work: a host that runs ahead is blocked eventually."""


@dataclass(frozen=True, slots=True)
class _ScheduledStep:
    """A host record and the GPU work that it launches, by their indices."""

    host: int
    device: int = -1
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """The records of one iteration in host order, classified by their behaviour."""

    records: tuple[Record, ...]
    steps: tuple[_ScheduledStep, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Schedule:
        """Build from records with nominal times, which determine the order only."""
        ordered = tuple(sorted(records, key=lambda record: (record.start_us, record.kind in _DEVICE_KINDS)))
        launched = {
            record.correlation: index for index, record in enumerate(ordered) if record.kind in _DEVICE_KINDS
        }
        steps: list[_ScheduledStep] = []
        for index, record in enumerate(ordered):
            if record.kind in _DEVICE_KINDS:
                continue
            device = launched.get(record.correlation, -1) if record.correlation else -1
            # A copy from pageable memory returns when it is done.
            blocking = device >= 0 and ordered[device].kind is RecordKind.COPY
            waits = record.kind is RecordKind.RUNTIME and (device < 0 or blocking)
            steps.append(_ScheduledStep(index, device, waits))
        return cls(ordered, tuple(steps))

    def place(self, durations_us: Sequence[float], cost: HostCost) -> tuple[list[float], list[float], float]:
        """Start and end of every record in µs, and the end of the iteration; durations are indexed as ``records``."""
        starts = [0.0] * len(self.records)
        ends = [0.0] * len(self.records)
        host = 0.0
        free: dict[str, float] = {}
        for step in self.steps:
            starts[step.host] = host
            host += durations_us[step.host]
            if step.device >= 0:
                lane = self.records[step.device].lane
                start = max(starts[step.host] + cost.launch_latency_us, free.get(lane, 0.0))
                if cost.synchronous:
                    start, host = host, host + durations_us[step.device]
                starts[step.device] = start
                ends[step.device] = start + durations_us[step.device]
                free[lane] = ends[step.device] + cost.turnaround_us
            if step.waits and not cost.synchronous:
                busy_until = ends[step.device] if step.device >= 0 else max(free.values(), default=0.0)
                host = max(host, busy_until + durations_us[step.host])
            ends[step.host] = host
        return starts, ends, max(host, *free.values(), 0.0) if free else host

    def trace(self, nominal: Trace, durations_us: Sequence[float], cost: HostCost, iterations: int) -> Trace:
        """Several consecutive copies of this iteration; allocations belong to the last one."""
        starts, ends, until = self.place(durations_us, cost)
        host_end = max((ends[step.host] for step in self.steps), default=0.0)
        closing = self.records[self.steps[-1].host] if self.steps else None
        made: list[Record] = []
        marks: list[IterationMark] = []
        whole = until + cost.wait_us
        for index in range(iterations):
            begin = index * whole
            made += [
                replace(
                    self._by_host(record) if cost.synchronous else record,
                    iteration=index,
                    start_us=begin + start,
                    duration_us=end - start,
                    correlation=0
                    if cost.synchronous or not record.correlation
                    else record.correlation + index * len(self.records),
                )
                for record, start, end in zip(self.records, starts, ends, strict=True)
            ]
            if closing is not None and not cost.synchronous:
                made.append(
                    Record(
                        END_OF_ITERATION,
                        RecordKind.RUNTIME,
                        Phase.OTHER,
                        closing.lane,
                        index,
                        begin + host_end,
                        whole - host_end,
                    )
                )
            marks.append(IterationMark(index, begin, begin + whole))
        moved = self._moved(nominal.allocations, starts, ends, (iterations - 1) * whole)
        return replace(nominal, iterations=tuple(marks), records=tuple(made), allocations=moved)

    def _by_host(self, record: Record) -> Record:
        """The record on a processor: operators and copies run on the host's lane, runtime calls are Python dispatch."""
        if record.kind in _DEVICE_KINDS:
            return replace(record, kind=RecordKind.OPERATOR, lane=self.records[self.steps[0].host].lane)
        if record.kind is RecordKind.RUNTIME:
            return replace(record, name="python", kind=RecordKind.PYTHON)
        return record

    def _moved(
        self, allocations: Sequence[Allocation], starts: Sequence[float], ends: Sequence[float], begin: float
    ) -> tuple[Allocation, ...]:
        """Allocations at the times of the host records during which they occurred."""
        hosts = [step.host for step in self.steps]
        nominal = [self.records[index].start_us for index in hosts]
        moved: list[Allocation] = []
        for allocation in allocations:
            position = bisect_right(nominal, allocation.time_us) - 1
            if position < 0:
                time_us = 0.0
            else:
                index = hosts[position]
                record = self.records[index]
                share = min(1.0, (allocation.time_us - record.start_us) / max(record.duration_us, 1e-9))
                time_us = starts[index] + share * (ends[index] - starts[index])
            moved.append(replace(allocation, time_us=begin + time_us))
        return tuple(moved)
