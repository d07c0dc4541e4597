"""A profile in speedscope's file format: every lane in order of time, and a summary of all iterations.

https://www.speedscope.app/file-format-schema.json: frames are shared and carry file and line, an *evented*
profile opens and closes them in time, a *sampled* one gives each stack a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from skyline.graph.build import main_lane
from skyline.trace.profile import Profile
from skyline.trace.record import Record, RecordKind, Trace
from skyline.version import __version__

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: Profile) -> bytes:
    """The profile as JSON."""
    trace = profile.trace
    frames = _Frames(trace)
    name = PurePath(profile.script).name
    profiles = [_summed(trace, frames, f"{name}: one iteration")]
    for lane in dict.fromkeys(record.lane for record in trace.records):
        records = [record for record in trace.records if record.lane == lane]
        profiles.append(_in_order(records, frames, f"{name}: {lane}"))
    document = {
        "$schema": SCHEMA,
        "name": f"{name}, {profile.created}",
        "exporter": f"skyline {__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": frames.table},
        "profiles": profiles,
    }
    return msgspec.json.encode(document)


class _Frames:
    """The shared table of frames, each entered once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._index: dict[tuple[str, str, int], int] = {}
        self.table: list[dict[str, Any]] = []

    def stack(self, record: Record) -> tuple[int, ...]:
        """The frames from the outside in: phase, the loop's own line, the line that costs, the operator."""
        lines = [line for line in dict.fromkeys((record.call_line, record.line)) if line >= 0]
        return (
            self._frame(record.phase.value),
            *(self._line(line) for line in lines),
            self._frame(record.name),
        )

    def _line(self, index: int) -> int:
        code = self._trace.lines[index]
        place = f"{PurePath(code.file).name}:{code.line}"
        return self._frame(f"{code.function} ({place})" if code.function else place, code.file, code.line)

    def _frame(self, name: str, file: str = "", line: int = 0) -> int:
        key = (name, file, line)
        if key not in self._index:
            self._index[key] = len(self.table)
            self.table.append({"name": name, **({"file": file, "line": line} if file else {})})
        return self._index[key]


def _summed(trace: Trace, frames: _Frames, name: str) -> dict[str, Any]:
    """The mean iteration of the script's own thread, with equal stacks merged."""
    lane = main_lane(trace)
    iterations = max(1, len(trace.iterations))
    weights: dict[tuple[int, ...], float] = {}
    for record in trace.records:
        if record.lane == lane:
            stack = frames.stack(record)
            weights[stack] = weights.get(stack, 0.0) + record.duration_us / iterations
    return {
        "type": "sampled",
        "name": name,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": round(sum(weights.values()), 3),
        "samples": [list(stack) for stack in weights],
        "weights": [round(weight, 3) for weight in weights.values()],
    }


def _in_order(records: Sequence[Record], frames: _Frames, name: str) -> dict[str, Any]:
    """One lane in order of time; a frame stays open across neighbours that share it."""
    ordered = sorted(records, key=lambda record: record.start_us)
    events: list[dict[str, Any]] = []
    open_frames: tuple[int, ...] = ()
    now = ordered[0].start_us if ordered else 0.0
    for record in ordered:
        # Rounding may let neighbours overlap by a nanosecond, which the format does not allow.
        start = max(now, record.start_us)
        stack = frames.stack(record)
        shared = 0 if start - now > 0.5 else _shared(open_frames, stack)
        if record.kind is not RecordKind.PYTHON:
            # Two calls of one operator in a row are two calls.
            shared = min(shared, len(stack) - 1)
        events += [
            {"type": "C", "frame": frame, "at": round(now, 3)} for frame in reversed(open_frames[shared:])
        ]
        events += [{"type": "O", "frame": frame, "at": round(start, 3)} for frame in stack[shared:]]
        open_frames = stack
        now = max(start, record.end_us)
    events += [{"type": "C", "frame": frame, "at": round(now, 3)} for frame in reversed(open_frames)]
    first = events[0]["at"] if events else 0
    return {
        "type": "evented",
        "name": name,
        "unit": "microseconds",
        "startValue": first,
        "endValue": round(now, 3),
        "events": events,
    }


def _shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
