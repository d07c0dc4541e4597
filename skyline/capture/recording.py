"""Asks a child to record iterations, and reads the recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from skyline.bounded_read import read_bounded
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.side_effects import UNREADABLE
from skyline.errors import CaptureImpossible
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import (
    CallFact,
    DeviceMemoryFact,
    MemoryFact,
    ModuleFact,
    ParallelFact,
    TorchSettings,
)
from skyline.trace.record import ON_DEVICE, Trace

_MUCH_UNKNOWN = 0.1
_MOST_BYTES = 1 << 30
"""Maximum size of a recording: a hundred times that of the largest models in use."""
_Recorded = TypeVar("_Recorded")
LIGHT_FAILED = "The recording that times come from could not be read"
"""The beginning of the note on this failure."""


@dataclass(frozen=True, slots=True)
class ChildRecording:
    """A child's recording: the trace, its wall times in ms, and the memory at its end."""

    trace: Trace
    recorded_ms: tuple[float, ...]
    memory: MemoryFact
    peak_bytes: int
    device_memory: DeviceMemoryFact | None = None
    unknown_share: float = 0.0
    """Share of operator time without known shapes and arithmetic, because the full recording had other operators."""
    light_failure: str = ""
    """Why the light recording could not be read; times then come from the full one. Empty if it could be read."""
    reading_ms: float = 0.0
    """Processor time that reading one lightly recorded iteration takes; 0 if there is none."""
    readable: int = 0
    """Most iterations that ``record_times`` may add: more would take too long to read."""
    ended_after: int | None = None
    """Total number of iterations of the script, if it ended while it was recorded."""
    settings: TorchSettings | None = None
    modules: tuple[ModuleFact, ...] = ()
    module_count: int = 0
    """Number of modules of the model; ``modules`` are the larger ones of very many."""
    parallel: ParallelFact | None = None
    calls: tuple[CallFact, ...] = ()
    operators_at_least: int = 0
    """Number of operators with a gradient in an iteration that was sampled because it has too many; 0 if unknown."""


def record(
    child: ChildProcess, iterations: int, *, full: int = 2, with_stacks: bool = True, goes_on: bool = False
) -> ChildRecording:
    """Record ``full`` iterations with shapes and memory, then ``iterations`` for times.

    The first full iteration frees blocks that the recorder never saw allocated: memory is right from the second on.
    Without stacks only the memory is useful. If the script ends early, the result has the iterations until then, or
    ScriptEnded is raised. With ``goes_on`` only full iterations are recorded, whose times include the cost of
    recording; ``record_times`` then adds the others.
    """
    return _record(
        child, iterations=0 if goes_on else iterations, full=full, stacks=with_stacks, goes_on=goes_on
    )


def recorded_peak(child: ChildProcess) -> int:
    """The peak of live tensor memory in an iteration, in bytes, from the second of two recorded iterations."""
    return record(child, 0, with_stacks=False).peak_bytes


def record_times(child: ChildProcess, iterations: int) -> ChildRecording:
    """Record iterations for their times after a ``record`` with ``goes_on``; returns both recordings combined."""
    return _record(child, iterations=iterations, times=True)


def _record(child: ChildProcess, **wanted: object) -> ChildRecording:
    path = child.scratch / "recording.json"
    child.send("record", path=str(path), **wanted)
    ended_after = None
    try:
        child.receive("recorded")
    except ScriptEnded as ended:
        if not path.exists():
            raise
        ended_after = ended.ended.boundaries
    return replace(take_recording(path, ChildRecording), ended_after=ended_after)


def record_lightly(child: ChildProcess, iterations: int) -> Trace:
    """Record iterations without shapes, memory and lines. Raises ScriptEnded if the script has too few left."""
    path = child.scratch / "recording.json"
    child.send("record", iterations=iterations, path=str(path), light=True)
    child.receive("recorded")
    return take_recording(path, Trace)


def take_recording(path: Path, kind: type[_Recorded]) -> _Recorded:
    """Read and remove the recording of a child. Raises CaptureImpossible if the script has overwritten it."""
    try:
        data = read_bounded(path, _MOST_BYTES)
        path.unlink()
        return msgspec.json.decode(data, type=kind)
    except (OSError, *UNREADABLE) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise CaptureImpossible(f"The recording cannot be read: {reason}") from error


def notes_on(recording: ChildRecording, device_kind: str) -> tuple[str, ...]:
    """Notes about a recording for the user."""
    notes: list[str] = []
    kernels_wanted = device_kind != "cpu" and not recording.trace.sampled
    if kernels_wanted and not any(record.kind in ON_DEVICE for record in recording.trace.records):
        notes.append(
            "PyTorch's profiler recorded none of the GPU's work: lines and phases show times of the host, "
            "and findings and "
            "what-ifs about the GPU are omitted. skyline doctor shows the reason and the remedy."
        )
    if recording.trace.sampled:
        many = f" ({recording.operators_at_least:,} with a gradient)" if recording.operators_at_least else ""
        notes.append(
            f"An iteration runs too many operators{many} to record each: lines and phases are from samples of the "
            "script's thread, backward work is on the line of the backward pass, and findings and what-ifs about "
            "operators are omitted."
        )
    if recording.light_failure:
        notes.append(
            f"{LIGHT_FAILED} ({recording.light_failure}): line times come from the recording with shapes and "
            "memory, and include its overhead."
        )
    if recording.unknown_share >= _MUCH_UNKNOWN:
        notes.append(
            "Iterations differ: shapes and arithmetic were recorded in one iteration, and it lacks operators that "
            f"take {recording.unknown_share:.0%} of the total time."
        )
    if recording.module_count > len(recording.modules):
        notes.append(
            f"The model has {recording.module_count:,} modules; the {len(recording.modules):,} with most "
            "parameters and activations are kept in the profile, and only these are examined one by one."
        )
    return tuple(notes)
