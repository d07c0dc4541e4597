"""A profile as a Chrome trace, which ui.perfetto.dev and chrome://tracing open.

The format is JSON: a list of events with a process, a thread, a start and a duration in µs. Here a process
is one side of the story (measured, or replayed by the simulation) and a thread is one lane.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from skyline.graph.build import main_lane
from skyline.trace.profile import Profile
from skyline.trace.record import Record, RecordKind, Trace

if TYPE_CHECKING:
    from skyline.simulate.timeline import Timeline

_MEASURED, _REPLAYED = 1, 2
_PHASE_LANE, _ITERATION_LANE, _FIRST_LANE = 2, 1, 3
_COLOURS = {
    "data": "yellow",
    "forward": "thread_state_running",
    "backward": "rail_animation",
    "optimizer": "good",
    "communication": "thread_state_iowait",
    "other": "grey",
}

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Neighbouring work of one phase."""

    name: str
    start_us: float
    end_us: float


def chrome_trace(profile: Profile, replayed: Timeline | None = None) -> bytes:
    """The trace as gzipped JSON; the same profile always gives the same bytes."""
    events = [*_measured(profile), *(_replayed(profile.trace, replayed) if replayed is not None else [])]
    document = {
        "displayTimeUnit": "ms",
        "otherData": {
            "script": profile.script,
            "created": profile.created,
            "device": profile.environment.device.name,
            "profile": profile.id,
        },
        "traceEvents": events,
    }
    return gzip.compress(msgspec.json.encode(document), compresslevel=6, mtime=0)


def _measured(profile: Profile) -> list[Event]:
    trace = profile.trace
    name = f"{PurePath(profile.script).name} ({'predicted' if profile.prediction else 'measured, while recorded'})"
    lanes = _lanes(record.lane for record in trace.records)
    events = _names(_MEASURED, name, {"iterations": _ITERATION_LANE, "phases": _PHASE_LANE, **lanes})
    for mark in trace.iterations:
        events.append(
            _span(
                f"iteration {mark.index}", "iteration", _MEASURED, _ITERATION_LANE, mark.start_us, mark.end_us
            )
        )
    for stretch in _phases(trace):
        event = _span(stretch.name, "phase", _MEASURED, _PHASE_LANE, stretch.start_us, stretch.end_us)
        events.append({**event, "cname": _COLOURS.get(stretch.name, "grey")})
    for record in trace.records:
        events.append(_record(record, trace, lanes[record.lane]))
    events += _flows(trace, lanes)
    events += _memory(profile)
    return events


def _replayed(trace: Trace, timeline: Timeline) -> list[Event]:
    tasks = timeline.graph.tasks
    lanes = _lanes(task.lane for task in tasks)
    events = _names(_REPLAYED, "replayed by the simulation", lanes)
    for task, start, end in zip(tasks, timeline.starts, timeline.ends, strict=True):
        event = _span(task.name, task.phase.value, _REPLAYED, lanes[task.lane], float(start), float(end))
        events.append({**event, "args": {"line": _place(trace, task.line), "kind": task.kind.value}})
    return events


def _record(record: Record, trace: Trace, thread: int) -> Event:
    event = _span(record.name, record.kind.value, _MEASURED, thread, record.start_us, record.end_us)
    arguments = {
        "line": _place(trace, record.line),
        "called from": _place(trace, record.call_line),
        "module": trace.modules[record.module] if record.module >= 0 else "",
        "phase": record.phase.value,
        "iteration": record.iteration,
    }
    return {**event, "args": {key: value for key, value in arguments.items() if value != ""}}


def _phases(trace: Trace) -> list[_Stretch]:
    """The phases of the main thread, neighbours of one phase joined into one stretch."""
    lane = main_lane(trace)
    stretches: list[_Stretch] = []
    for record in sorted((r for r in trace.records if r.lane == lane), key=lambda r: r.start_us):
        last = stretches[-1] if stretches else None
        name = record.phase.value
        if last is not None and last.name == name and record.start_us - last.end_us < 1.0:
            stretches[-1] = _Stretch(name, last.start_us, record.end_us)
        else:
            stretches.append(_Stretch(name, record.start_us, record.end_us))
    return stretches


def _flows(trace: Trace, lanes: dict[str, int]) -> list[Event]:
    """Arrows from the call that launched work on the GPU to that work."""
    launches = {r.correlation: r for r in trace.records if r.kind is RecordKind.RUNTIME and r.correlation}
    events: list[Event] = []
    for record in trace.records:
        launch = launches.get(record.correlation)
        if launch is None or record.kind not in {RecordKind.KERNEL, RecordKind.COPY}:
            continue
        for kind, end, at in (("s", launch, launch.start_us), ("f", record, record.start_us)):
            event: Event = {"name": "launch", "cat": "launch", "ph": kind, "id": record.correlation, "ts": at}
            events.append(
                {**event, "pid": _MEASURED, "tid": lanes[end.lane], **({"bp": "e"} if kind == "f" else {})}
            )
    return events


def _memory(profile: Profile) -> list[Event]:
    """Live tensor bytes over time, on top of what lives from one iteration to the next."""
    live = profile.memory.total_bytes
    events: list[Event] = []
    for allocation in sorted(profile.trace.allocations, key=lambda allocation: allocation.time_us):
        live += allocation.size_bytes
        events.append(
            {
                "name": "tensor memory",
                "ph": "C",
                "pid": _MEASURED,
                "ts": round(allocation.time_us, 3),
                "args": {"bytes": max(0, live)},
            }
        )
    return events


def _span(name: str, category: str, process: int, thread: int, start_us: float, end_us: float) -> Event:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": round(start_us, 3),
        "dur": round(end_us - start_us, 3),
    }


def _names(process: int, name: str, lanes: dict[str, int]) -> list[Event]:
    events: list[Event] = [
        {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}},
        {"name": "process_sort_index", "ph": "M", "pid": process, "args": {"sort_index": process}},
    ]
    for lane, thread in lanes.items():
        base: Event = {"ph": "M", "pid": process, "tid": thread}
        events.append({**base, "name": "thread_name", "args": {"name": lane}})
        events.append({**base, "name": "thread_sort_index", "args": {"sort_index": thread}})
    return events


def _lanes(names: Iterable[str]) -> dict[str, int]:
    return {lane: index for index, lane in enumerate(dict.fromkeys(names), start=_FIRST_LANE)}


def _place(trace: Trace, line: int) -> str:
    if line < 0:
        return ""
    code = trace.lines[line]
    return f"{code.file}:{code.line}"
