"""Asking a child to record iterations, and reading what it wrote."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from skyline.capture.child_process import ChildProcess
from skyline.trace.facts import DeviceMemoryFact, MemoryFact
from skyline.trace.record import Trace


@dataclass(frozen=True, slots=True)
class Recording:
    """A child's recording: the trace, its wall times in ms, and the memory at its end."""

    trace: Trace
    recorded_ms: tuple[float, ...]
    memory: MemoryFact
    peak_bytes: int
    device_memory: DeviceMemoryFact | None = None


def record(child: ChildProcess, iterations: int, *, with_stacks: bool = True) -> Recording:
    """Record so many iterations; without stacks only memory is of use."""
    path = child.scratch / "recording.json"
    child.send("record", iterations=iterations, path=str(path), stacks=with_stacks)
    child.receive("recorded")
    data = path.read_bytes()
    path.unlink()
    return msgspec.json.decode(data, type=Recording)
