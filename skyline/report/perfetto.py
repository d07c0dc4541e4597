"""A profile as a Chrome trace, which ui.perfetto.dev and chrome://tracing open.

The format is JSON: a list of events with a process, a thread, a start and a duration in µs. A process is one
side (measured or simulated), a thread is one lane.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from skyline.graph.build import main_lane
from skyline.lazy_dataclass import dataclass
from skyline.report.chrome_events import (
    CRITICAL_LANE,
    Event,
    arrow,
    document,
    headings,
    lanes_of,
    simulated_events,
    span,
)
from skyline.trace.profile import Profile
from skyline.trace.record import Record, RecordKind, Trace

if TYPE_CHECKING:
    from skyline.simulate.engine import Timeline

_MEASURED, _REPLAYED = 1, 2
_PHASE_LANE, _ITERATION_LANE = 2, 1
_COLOURS = {
    "data": "yellow",
    "forward": "thread_state_running",
    "backward": "rail_animation",
    "optimizer": "good",
    "communication": "thread_state_iowait",
    "other": "grey",
}


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Neighbouring work of one phase."""

    name: str
    start_us: float
    end_us: float


def chrome_trace(profile: Profile, replayed: Timeline | None = None) -> bytes:
    """The trace as gzipped JSON; the same profile always gives the same bytes."""
    lanes = lanes_of(record.lane for record in profile.trace.records)
    events: list[Event] = [*_measured(profile, lanes)]
    if replayed is not None:
        lines = profile.trace.lines
        events += headings(_REPLAYED, "replayed by the simulation", {"critical path": CRITICAL_LANE, **lanes})
        events += simulated_events(
            _REPLAYED,
            replayed,
            lanes,
            place=lambda line: _place(profile.trace, line) if line < len(lines) else "",
            first_arrow=1 + max((record.correlation for record in profile.trace.records), default=0),
        )
    return document(
        events,
        {
            "script": profile.script,
            "created": profile.created,
            "device": profile.environment.device.name,
            "profile": profile.id,
        },
    )


def _measured(profile: Profile, lanes: dict[str, int]) -> list[Event]:
    trace = profile.trace
    name = f"{PurePath(profile.script).name} ({'predicted' if profile.prediction else 'measured, while recorded'})"
    events = headings(_MEASURED, name, {"iterations": _ITERATION_LANE, "phases": _PHASE_LANE, **lanes})
    for mark in trace.iterations:
        events.append(
            span(
                f"iteration {mark.index}", "iteration", _MEASURED, _ITERATION_LANE, mark.start_us, mark.end_us
            )
        )
    for stretch in _phases(trace):
        event = span(stretch.name, "phase", _MEASURED, _PHASE_LANE, stretch.start_us, stretch.end_us)
        events.append({**event, "cname": _COLOURS.get(stretch.name, "grey")})
    for record in trace.records:
        events.append(_record(record, trace, lanes[record.lane]))
    events += _flows(trace, lanes)
    events += _memory(profile)
    return events


def _record(record: Record, trace: Trace, thread: int) -> Event:
    event = span(record.name, record.kind.value, _MEASURED, thread, record.start_us, record.end_us)
    arguments = {
        "line": _place(trace, record.line),
        "called from": _place(trace, record.call_line),
        "module": trace.modules[record.module] if record.module >= 0 else "",
        "phase": record.phase.value,
        "iteration": record.iteration,
    }
    return {**event, "args": {key: value for key, value in arguments.items() if value != ""}}


def _phases(trace: Trace) -> list[_Stretch]:
    """The phases of the main thread; neighbours of one phase are joined into one stretch."""
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
    """Arrows from the call that launched GPU work to that work."""
    launches = {r.correlation: r for r in trace.records if r.kind is RecordKind.RUNTIME and r.correlation}
    events: list[Event] = []
    for record in trace.records:
        launch = launches.get(record.correlation)
        if launch is None or record.kind not in {RecordKind.KERNEL, RecordKind.COPY}:
            continue
        events += arrow(
            "launch",
            record.correlation,
            _MEASURED,
            (lanes[launch.lane], launch.start_us),
            (lanes[record.lane], record.start_us),
        )
    return events


def _memory(profile: Profile) -> list[Event]:
    """Live tensor bytes over time, on top of the bytes that persist from one iteration to the next."""
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


def _place(trace: Trace, line: int) -> str:
    if line < 0:
        return ""
    code = trace.lines[line]
    return f"{code.file}:{code.line}"
