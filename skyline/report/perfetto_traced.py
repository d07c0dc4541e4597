"""A profiler trace as a Chrome trace, measured and simulated side by side, for ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.task import ON_GPU
from skyline.report.chrome_events import (
    CRITICAL_LANE,
    FIRST_LANE,
    STEP_LANE,
    Event,
    document,
    headings,
    lanes_of,
    launch_arrows,
    simulated_events,
    span,
    threads_of,
)
from skyline.trace.kineto.category import GPU_WORK, Category
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject

_MEASURED, _SIMULATED = 1, 2
_HOST = (Category.ANNOTATION, Category.CPU_OP, Category.RUNTIME, Category.DRIVER)


def side_by_side(subject: Subject, source: str) -> bytes:
    """Two processes with the same lanes, gzipped; the measured one omits Python functions."""
    return document(
        _events(subject.recorded),
        {
            "source": PurePath(source).name,
            "device": subject.device_name,
            "replay_error": subject.replay_error,
        },
    )


def _events(recording: Recording) -> Iterator[Event]:
    graph, kineto, trace = recording.graph, recording.kineto, recording.trace
    used: list[int] = np.unique(graph.tasks.lane).tolist()
    lanes = lanes_of(graph.tasks.lanes[lane] for lane in used)
    yield from headings(_MEASURED, "measured", {"steps": STEP_LANE, **lanes})
    yield from headings(
        _SIMULATED, "simulated", {"critical path": CRITICAL_LANE, "steps": STEP_LANE, **lanes}
    )
    thread = [lanes.get(lane, FIRST_LANE) for lane in graph.tasks.lanes]
    yield from _measured(recording, thread)
    task_threads = threads_of(recording.timeline, lanes)
    measured_us: list[float] = trace.start_us[kineto.event].tolist()
    # The pauses of a CUDA graph are tasks, but they were not recorded.
    unrecorded = ON_GPU[graph.tasks.kind] & ~np.isin(trace.category[kineto.event], GPU_WORK)
    yield from launch_arrows(
        "launch, measured", _MEASURED, recording.timeline, task_threads, measured_us, 0, unrecorded
    )
    starts = recording.timeline.starts
    own = np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(kineto.main))
    offset_us = float(kineto.start_us[own[0]]) if len(own) else 0.0
    steps = zip(
        kineto.steps.number.tolist(), starts[kineto.steps.first], starts[kineto.steps.last], strict=True
    )
    for number, begin, end in steps:
        yield span(
            f"step {number}", "step", _SIMULATED, STEP_LANE, float(begin) + offset_us, float(end) + offset_us
        )
    lines = graph.structure.lines
    yield from simulated_events(
        _SIMULATED,
        recording.timeline,
        lanes,
        offset_us=offset_us,
        place=lambda line: f"{lines[line].file}:{lines[line].line}" if 0 <= line < len(lines) else "",
        first_arrow=len(graph),
    )


def _measured(recording: Recording, thread: list[int]) -> Iterator[Event]:
    trace, steps = recording.trace, recording.kineto.steps
    for number, took, first in zip(
        steps.number.tolist(), steps.measured_us.tolist(), steps.first.tolist(), strict=True
    ):
        begin = float(recording.kineto.start_us[first])
        yield span(f"step {number}", "step", _MEASURED, STEP_LANE, begin, begin + took)
    rows, lane = _lanes(recording)
    order = np.lexsort((np.arange(len(rows)), lane))
    rows, lane = rows[order], lane[order]
    end = _nested(lane, trace.start_us[rows], trace.end_us[rows])
    names: list[int] = trace.name[rows].tolist()
    kinds: list[int] = trace.category[rows].tolist()
    codes: list[int] = lane.tolist()
    for name, category, row, begin, until in zip(
        names, kinds, codes, trace.start_us[rows].tolist(), end.tolist(), strict=True
    ):
        yield span(trace.strings[name], Category(category).name.lower(), _MEASURED, thread[row], begin, until)


def _lanes(recording: Recording) -> tuple[Indices, Indices]:
    """The rows to show and the lane of each: threads that have tasks, and the streams."""
    trace, tasks, event = recording.trace, recording.graph.tasks, recording.kineto.event
    on_gpu = ON_GPU[tasks.kind]
    of_thread = np.full(max(1, len(trace.threads)), -1, np.int64)
    of_thread[trace.thread[event[~on_gpu]]] = tasks.lane[~on_gpu]
    host = trace.of(*_HOST)
    host = host[trace.thread[host] >= 0]
    lane = of_thread[trace.thread[host]]
    streams = {
        (int(trace.device[row]), int(trace.stream[row])): int(code)
        for row, code in zip(event[on_gpu].tolist(), tasks.lane[on_gpu].tolist(), strict=True)
        if trace.category[row] in GPU_WORK
    }
    work = trace.of(*GPU_WORK)
    of_work = np.array(
        [
            streams.get(key, -1)
            for key in zip(trace.device[work].tolist(), trace.stream[work].tolist(), strict=True)
        ],
        np.int64,
    )
    rows, lanes = np.concatenate([host, work]).astype(np.int64), np.concatenate([lane, of_work])
    rows, lanes = rows[lanes >= 0], lanes[lanes >= 0]
    order = np.argsort(rows, kind="stable")
    return rows[order], lanes[order]


def _nested(lane: Indices, start: Times, end: Times) -> Times:
    """The ends at which the spans of a lane, by start and the longest first, are nested or disjoint.

    Rounding, and ranges that were closed out of order, make some overlap; a viewer would drop those.
    """
    fitted = end.copy()
    held: list[float] = []
    last = -1
    for place, (row, begin, until) in enumerate(
        zip(lane.tolist(), start.tolist(), end.tolist(), strict=True)
    ):
        if row != last:
            held, last = [], row
        while held and held[-1] <= begin:
            held.pop()
        if held and until > held[-1]:
            fitted[place] = held[-1]
        held.append(float(fitted[place]))
    return fitted
