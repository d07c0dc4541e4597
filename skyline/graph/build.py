"""Conversion of the records of a trace to a graph of dependent tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skyline.graph.column import coded
from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.merging import coalesce
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.names import launches_graph, makes_stream_wait, waits_for_all, waits_for_gpu
from skyline.graph.rules.stream_wait import StreamWork, stream_waits
from skyline.graph.task import KIND, PHASE, WORK, TaskKind, Tasks, work_class
from skyline.interval import median
from skyline.trace.record import ON_DEVICE, Record, RecordKind, Trace

_PAUSE_US = 1.0
_UNRECORDED_US = 15.0
"""Longest pause, in µs, between two nodes of a CUDA graph that counts as the graph's own scheduling time."""

_LONGEST_LATENCY_US = 200.0
"""Largest launch latency to an idle GPU. All known recordings show 5 to 180 µs; a longer one includes another
program's work."""
_TURNAROUND_LIMIT_US = 10.0
"""A longer pause, in µs, between two kernels of a stream means that the stream was idle."""


def main_lane(trace: Trace) -> str:
    """The lane of the script's own thread: the CPU lane with the most recorded time."""
    if len(lanes := {record.lane for record in trace.records}) == 1:
        if any(record.kind not in ON_DEVICE for record in trace.records):
            return lanes.pop()
        return "main"
    busy: Counter[str] = Counter()
    for record in trace.records:
        if record.kind not in ON_DEVICE:
            busy[record.lane] += record.duration_us  # type: ignore[assignment]
    return max(busy, key=lambda lane: busy[lane], default="main")


def build(trace: Trace, *, merged: bool = True) -> Graph:
    """The graph of all recorded iterations with recorded times. ``merged`` joins runs of similar CPU tasks.

    Records become tasks in the order of their lanes. Python time becomes the gap of the preceding task. Where the
    Python time belongs to another line or phase, it becomes the gap of an additional task of zero duration, so
    that both keep their own cost. GPU work waits for the start of its launch plus a launch latency. All launches
    share one latency and all streams share one turnaround time; the simulation derives the remaining timing.
    """
    builder = _GraphBuilder(trace, main_lane(trace))
    for row, record in sorted(
        enumerate(trace.records), key=lambda pair: (pair[1].start_us, -pair[1].duration_us)
    ):
        builder.add(row, record)
    graph = builder.graph()
    return coalesce(graph) if merged else graph


@dataclass(slots=True)
class _GraphBuilder:
    """Collects tasks from the records, which arrive in order of their start times."""

    trace: Trace
    main: str
    records: list[Record] = field(default_factory=list[Record])
    """The record that each task begins with."""
    origins: list[int] = field(default_factory=list[int])
    kinds: list[TaskKind] = field(default_factory=list[TaskKind])
    durations: list[float] = field(default_factory=list[float])
    gaps: list[float] = field(default_factory=list[float])
    recording_us: list[float] = field(default_factory=list[float])
    last_on_lane: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, row: int, record: Record) -> None:
        before = self.last_on_lane.get(record.lane)
        duration, gap = record.duration_us, 0.0
        if record.kind is RecordKind.PYTHON:
            if before is not None and _continues(self.records[before], record):
                self.gaps[before] += record.duration_us
                self.recording_us[before] += record.recording_us
                return
            duration, gap = 0.0, record.duration_us
        self.last_on_lane[record.lane] = len(self.records)
        self.records.append(record)
        self.origins.append(row)
        self.kinds.append(_KINDS.get(record.kind, TaskKind.CPU))
        self.durations.append(duration)
        self.gaps.append(gap)
        self.recording_us.append(record.recording_us)

    def graph(self) -> Graph:
        """Tasks and dependencies, with launches distinguished from synchronising calls."""
        device = [index for index, record in enumerate(self.records) if record.kind in ON_DEVICE]
        if not device:
            return Graph(self._structure(()), self.durations, self.gaps)
        launched = self._launched_by(device)
        latency_us = self._latency_us(device, launched, ())
        times = LaunchConstants(latency_us, self._turn_around(device, launched, latency_us))
        waits = self._stream_waits(device, launched, times)
        waiting = {wait.target for wait in waits}
        times = replace(times, launch_latency_us=self._latency_us(device, launched, waiting))
        dependencies = [
            *self._launches(device, launched, times, waiting),
            *waits,
            *self._syncs(device),
            *self._beside(),
        ]
        return Graph(self._structure(dependencies), self.durations, self.gaps)

    def _structure(self, dependencies: Sequence[Dependency]) -> Structure:
        records = self.records
        names, name = coded([record.name for record in records])
        lanes, lane = coded([record.lane for record in records])
        works = np.array([WORK[work_class(one)] for one in names], np.uint8)
        tasks = Tasks.columns(
            len(records),
            names,
            lanes,
            name=name,
            lane=lane,
            kind=[KIND[kind] for kind in self.kinds],
            work=works[name],
            phase=[PHASE[record.phase] for record in records],
            iteration=[record.iteration for record in records],
            line=[record.line for record in records],
            call_line=[record.call_line for record in records],
            module=[record.module for record in records],
            recording_us=self.recording_us,
            origin=self.origins,
        )
        return Structure(tasks, dependencies, self.trace.modules, self.trace.lines)

    def _launched_by(self, device: Sequence[int]) -> dict[int, int]:
        """The recorded call that launched each kernel or copy."""
        calls = {
            record.correlation: index
            for index, record in enumerate(self.records)
            if record.kind is RecordKind.RUNTIME and record.correlation
        }
        found = {
            k: calls[self.records[k].correlation] for k in device if self.records[k].correlation in calls
        }
        for call in found.values():
            self._retype(call, TaskKind.LAUNCH)
        return found

    def _latency_us(
        self, device: Sequence[int], launched: Mapping[int, int], explained: Collection[int]
    ) -> float:
        """The time from a launch to the start of its kernel, measured on idle streams that wait for nothing else.

        In a CUDA graph, only the first node counts: the others wait for earlier nodes. If another program
        uses the GPU too, some kernels start much later. These are omitted.
        """
        previous_end: dict[str, float] = {}
        latencies: list[float] = []
        begun: set[int] = set()
        for kernel in device:
            record = self.records[kernel]
            call = launched.get(kernel)
            if call is not None and kernel not in explained and call not in begun:
                latency = record.start_us - self.records[call].start_us
                if previous_end.get(record.lane, 0.0) <= self.records[call].start_us and latency >= 0:
                    latencies.append(latency)
            if call is not None and launches_graph(self.records[call].name):
                begun.add(call)
            previous_end[record.lane] = record.end_us
        if not latencies:
            return 0.0
        own = [latency for latency in latencies if latency <= _LONGEST_LATENCY_US]
        return median(own) if own else min(latencies)

    def _launches(
        self,
        device: Sequence[int],
        launched: Mapping[int, int],
        times: LaunchConstants,
        explained: Collection[int],
    ) -> list[Dependency]:
        """Kernels wait for their launch; graph nodes also wait for nodes that the profiler omitted.

        A launched CUDA graph needs nothing more from the host. A pause of its stream is therefore GPU time, unless a
        wait for another stream explains it, or a node of the same graph on another stream that ended in the pause.
        """
        found: list[Dependency] = []
        previous: dict[str, int] = {}
        latest: dict[int, int] = {}
        for kernel in device:
            record = self.records[kernel]
            before, call = previous.get(record.lane), launched.get(kernel)
            previous[record.lane] = kernel
            if call is None:
                continue
            lag = times.launch_latency_us
            if launches_graph(self.records[call].name) and kernel not in explained:
                arrives = self.records[call].start_us + lag
                free = arrives if before is None else self.records[before].end_us + times.turnaround_us
                awaited = self._latest_ended(latest, call, kernel)
                if awaited is not None and self.records[awaited].end_us > max(arrives, free):
                    found.append(Dependency(awaited, kernel, Cause.EVENT))
                    free = self.records[awaited].end_us
                    before = awaited
                pause = record.start_us - max(arrives, free)
                if pause > _UNRECORDED_US and before is not None and free > arrives:
                    self.gaps[before] += pause
                elif pause > _UNRECORDED_US:
                    lag += pause
            found.append(Dependency(call, kernel, Cause.LAUNCH, lag, from_start=True))
        return found + self._backlog([kernel for kernel in device if kernel not in launched])

    def _latest_ended(self, latest: dict[int, int], call: int, kernel: int) -> int | None:
        """The node of ``call``'s graph that ended last before this kernel started. Also records this kernel."""
        before = latest.get(call)
        if before is None or self.records[kernel].end_us >= self.records[before].end_us:
            latest[call] = kernel
        if before is None or self.records[before].end_us > self.records[kernel].start_us + _PAUSE_US:
            return None
        return before if self.records[before].lane != self.records[kernel].lane else None

    def _stream_waits(
        self, device: Sequence[int], launched: Mapping[int, int], times: LaunchConstants
    ) -> list[Dependency]:
        """Inferred waits between streams: the profiler does not record which events a stream waits for."""
        asking = [
            record
            for record in self.records
            if record.kind is RecordKind.RUNTIME and makes_stream_wait(record.name)
        ]
        work = sorted(device, key=lambda kernel: (self.records[kernel].lane, kernel))
        calls = [launched.get(kernel, -1) for kernel in work]
        callers = {lane: number for number, lane in enumerate(self.last_on_lane)}
        streams = StreamWork(
            np.array([callers[self.records[kernel].lane] for kernel in work], np.int32),
            np.array([self.records[kernel].start_us for kernel in work]),
            np.array([self.records[kernel].end_us for kernel in work]),
            np.array([self.records[call].start_us if call >= 0 else np.inf for call in calls]),
            np.array([callers[self.records[call].lane] if call >= 0 else -1 for call in calls], np.int32),
        )
        asked_us = np.array([record.start_us for record in asking])
        asked_by = np.array([callers[record.lane] for record in asking], np.int32)
        awaited, waiting = stream_waits(streams, asked_us, asked_by, times)
        sources: list[int] = awaited.tolist()
        targets: list[int] = waiting.tolist()
        return [
            Dependency(work[source], work[target], Cause.EVENT)
            for source, target in zip(sources, targets, strict=True)
        ]

    def _backlog(self, kernels: Sequence[int]) -> list[Dependency]:
        """Work launched before the recording keeps its start as an offset from the main thread's first task."""
        first = next((index for index, record in enumerate(self.records) if record.lane == self.main), None)
        if first is None:
            return []
        origin = self.records[first].start_us
        return [
            Dependency(
                first, kernel, Cause.LAUNCH, max(0.0, self.records[kernel].start_us - origin), from_start=True
            )
            for kernel in kernels
            if kernel > first
        ]

    def _beside(self) -> list[Dependency]:
        """Other threads resume after a pause at a fixed offset from a task of the script's thread.

        The trace does not show who starts them. A task that waits for the GPU cannot be the reference,
        because it starts when the GPU is done.
        """
        found: list[Dependency] = []
        point = -1
        reached: dict[str, float] = {}
        for index, record in enumerate(self.records):
            if record.lane == self.main:
                if self.kinds[index] is not TaskKind.SYNC:
                    point = index
            elif record.kind not in ON_DEVICE:
                paused = record.start_us > reached.get(record.lane, 0.0) + _PAUSE_US
                reached[record.lane] = record.end_us
                if paused and point >= 0:
                    lag = record.start_us - self.records[point].start_us
                    found.append(Dependency(point, index, Cause.HAND_OFF, lag, from_start=True))
        return found

    def _syncs(self, device: Sequence[int]) -> list[Dependency]:
        streams: dict[str, list[tuple[float, int]]] = {}
        for kernel in device:
            streams.setdefault(self.records[kernel].lane, []).append((self.records[kernel].end_us, kernel))
        for ends in streams.values():
            ends.sort()
        copies = {self.records[k].correlation: k for k in device if self.records[k].kind is RecordKind.COPY}
        found: list[Dependency] = []
        for index, record in enumerate(self.records):
            if record.kind is not RecordKind.RUNTIME:
                continue
            if waits_for_gpu(record.name):
                awaited = self._awaited(record, streams)
                for kernel in awaited:
                    own = record.end_us - max(record.start_us, self.records[kernel].end_us)
                    self.durations[index] = max(0.0, min(self.durations[index], own))
                    found.append(Dependency(kernel, index, Cause.SYNC))
                if awaited:
                    self._retype(index, TaskKind.SYNC)
            elif (
                record.correlation in copies
                and self.records[copies[record.correlation]].start_us < record.end_us
            ):
                # A copy from or to pageable memory blocks its caller until it is done.
                copy = copies[record.correlation]
                if self.records[copy].end_us <= record.end_us:
                    found += self._blocking_copy(index, copy)
        return found

    def _awaited(self, record: Record, streams: Mapping[str, Sequence[tuple[float, int]]]) -> list[int]:
        """The last work of each stream that was done when the call returned, or only the latest of these.

        A call that waits for one stream does not name the stream. The latest work explains when the call returned.
        """
        done: list[tuple[float, int]] = []
        for ends in streams.values():
            place = bisect_right(ends, (record.end_us, len(self.records)))
            if place and self.records[ends[place - 1][1]].start_us < record.end_us:
                done.append(ends[place - 1])
        if not waits_for_all(record.name):
            done = [max(done)] if done else []
        return [kernel for _, kernel in done]

    def _blocking_copy(self, call: int, copy: int) -> list[Dependency]:
        """The call keeps the time before the copy; the next task on its lane waits for the copy."""
        self.durations[call] = max(0.0, self.records[copy].start_us - self.records[call].start_us)
        following = next(
            (
                i
                for i in range(call + 1, len(self.records))
                if self.records[i].lane == self.records[call].lane
            ),
            None,
        )
        if following is None:
            return []
        return [
            Dependency(copy, following, Cause.SYNC, self.records[call].end_us - self.records[copy].end_us)
        ]

    def _turn_around(self, device: Sequence[int], launched: Mapping[int, int], latency_us: float) -> float:
        """The turnaround time between consecutive kernels of a stream, from kernels that were queued in time."""
        pauses: list[float] = []
        previous: dict[str, Record] = {}
        for kernel in device:
            record = self.records[kernel]
            if record.lane in previous:
                free = previous[record.lane].end_us
                pause, call = record.start_us - free, launched.get(kernel)
                queued = call is None or self.records[call].start_us + 2 * latency_us <= free
                if queued and 0 <= pause <= _TURNAROUND_LIMIT_US:
                    pauses.append(pause)
            previous[record.lane] = record
        turnaround = median(pauses) if pauses else 0.0
        for kernel in device:
            self.gaps[kernel] = turnaround
        return turnaround

    def _retype(self, index: int, kind: TaskKind) -> None:
        self.kinds[index] = kind


_KINDS = {
    RecordKind.DATA: TaskKind.DATA,
    RecordKind.KERNEL: TaskKind.KERNEL,
    RecordKind.COPY: TaskKind.COPY,
}


def _continues(begun: Record, record: Record) -> bool:
    return (
        begun.phase is record.phase
        and begun.line == record.line
        and begun.iteration == record.iteration
        and begun.kind is not RecordKind.DATA
    )
