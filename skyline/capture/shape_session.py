"""Traces a script for a GPU that need not exist here: every operator with its shapes, without executing any."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace
from math import prod
from pathlib import Path

import msgspec

from skyline.capture.assemble import ScriptRun, assemble
from skyline.capture.bare import BareRows
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.ended_early import too_few
from skyline.capture.events import StepRow
from skyline.capture.process import Starter, start_fresh
from skyline.capture.recording import ChildRecording, take_recording
from skyline.capture.request import CaptureRequest, OutputCallback, ProgressCallback
from skyline.capture.script_launcher import ScriptLauncher
from skyline.errors import ScriptFailed
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import RepeatedRead, TimedRead
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine, Record, RecordKind, Trace

_NO_HARDWARE = (
    "No CUDA GPUs are available",
    "no CUDA-capable device is detected",
    "Found no NVIDIA driver",
    "No HIP GPUs are available",
)
_HARDWARE = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""Files that the drivers of NVIDIA, of WSL, and of AMD create."""
_GPU_IN_SIGHT = (
    "The script fails without this machine's GPU, so that GPU was visible to it. Work outside the trace, such "
    "as reading data, may have used it."
)


def trace_shapes(
    request: CaptureRequest,
    gpu: GpuTarget | None,
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> Profile:
    """Run the script without computing or allocating its tensors, and return one iteration as a profile.

    The script sees one GPU with the properties of ``gpu``; None traces this machine's CPU instead. Times in the
    profile are nominal, 1 µs per record, and only show the order. ``starter`` starts the process.
    Raises the same errors as ``capture``, and leaves no process behind.
    """
    launcher = ScriptLauncher(request, progress=progress, output=output, cancel=cancel, starter=starter)
    try:
        return _traced_on_any(launcher, gpu)
    except ScriptEnded as ended:
        raise too_few(ended.ended, least=3) from None


@dataclass(frozen=True, slots=True)
class _Branch:
    """A line whose outcome depends on numbers that were not computed; ``what`` names the outcome if not a branch."""

    file: str
    line: int
    function: str
    what: str


@dataclass(frozen=True, slots=True)
class _Traced:
    """Facts of the traced iteration that the child sends with its records."""

    path: str
    fetches: int
    backward_calls: int
    optimizer_steps: int
    on_gpu: bool
    loop: CodeLine | None
    branches: tuple[_Branch, ...]
    compiled: bool
    samples_repeated: bool
    asked: tuple[str, ...] = ()
    repeated_reads: tuple[RepeatedRead, ...] = ()
    timed_reads: tuple[TimedRead, ...] = ()
    untimed_fetches: int = 0


def _traced_on_any(launcher: ScriptLauncher, gpu: GpuTarget | None) -> Profile:
    """The profile of one traced iteration.

    The GPUs of this machine are hidden from the script, which is to see another one: untraced work would otherwise
    run on them. They are visible only in a second attempt, if the script fails because no GPU is found.
    """
    request = launcher.request
    launcher.request = replace(request, device="cpu")
    try:
        return _traced(launcher, gpu)
    except ScriptFailed as failed:
        if request.device == "cpu" or not _wants_hardware(failed):
            raise
    launcher.request = replace(request, device="auto")
    traced = _traced(launcher, gpu)
    return replace(traced, notes=(*traced.notes, _GPU_IN_SIGHT))


def _traced(launcher: ScriptLauncher, gpu: GpuTarget | None) -> Profile:
    knobs = launcher.find_knobs()
    launcher.say("launch", f"starting {launcher.script.name}", 0.1)
    with launcher.launch() as child:
        launcher.start(child, mode="shapes", gpu=asdict(gpu) if gpu else None)
        ready, _ = launcher.await_ready(child)
        launcher.say("record", "tracing an iteration", 0.5)
        traced, recording = _record(child)
        step_ms = recording.recorded_ms[0]
        row = StepRow(step_ms, 0.0, 0.0, 0.0, traced.fetches, traced.backward_calls, traced.optimizer_steps)
        run = ScriptRun(
            request=launcher.request,
            script=str(launcher.script),
            text=launcher.text,
            sources=launcher.sources,
            directory=str(launcher.directory),
            interpreter=launcher.interpreter,
            ready=replace(ready, loop=traced.loop),
            rows=BareRows([row]),
            recording=recording,
            knobs=knobs,
            notes=(*child.notes, *_notes(traced, gpu)),
            side_effects=child.side_effects(),
            protection=child.protection(),
            output_tail=child.output.tail_now(),
            redactor=child.redactor,
        )
    profile = assemble(run.with_batch())
    return replace(
        profile,
        mode="predicted",
        asked_of_gpu=traced.asked,
        repeated_reads=traced.repeated_reads,
        timed_reads=traced.timed_reads,
        untimed_loading=_untimed(traced, profile.trace),
    )


def _record(child: ChildProcess) -> tuple[_Traced, ChildRecording]:
    path = child.scratch / "recording.json"
    child.send("record", iterations=1, path=str(path), stacks=True)
    traced = msgspec.convert(child.receive("recorded"), _Traced)
    return traced, take_recording(path, ChildRecording)


def _untimed(traced: _Traced, trace: Trace) -> str:
    """The reason why the time to load batches is unknown; empty if it is known or nothing is loaded."""
    if traced.untimed_fetches:
        return "the data set cannot be read without the GPU"
    if traced.fetches:
        return ""
    copied = any(
        record.kind is RecordKind.COPY and record.name.endswith("HtoD") and _is_batch(trace, record)
        for record in trace.records
    )
    return "the script makes its batches without a DataLoader" if copied else ""


def _is_batch(trace: Trace, record: Record) -> bool:
    """True if a copy contains a tensor with more than one element."""
    return record.shape >= 0 and any(prod(one) > 1 for one in trace.shapes[record.shape].outputs)


def _wants_hardware(failed: ScriptFailed) -> bool:
    said = f"{failed.message}\n{failed.traceback}"
    return any(words in said for words in _NO_HARDWARE) and any(path.exists() for path in _HARDWARE)


def _notes(traced: _Traced, gpu: GpuTarget | None) -> tuple[str, ...]:
    """Notes for the user about a trace in which no number was computed."""
    notes: list[str] = []
    if gpu is not None and not traced.on_gpu:
        notes.append(
            f"This script never moves its model to a GPU: on a machine with a {gpu.name} it trains on the CPU."
        )
    for branch in traced.branches:
        place = f"{Path(branch.file).name} line {branch.line}"
        if branch.what:
            notes.append(
                f"{place}: {branch.what} depends on computed numbers; half of the elements were assumed."
            )
        else:
            notes.append(
                f"{place} branches on a value that was not computed; false or 1 was assumed, "
                "and the other branch was not traced."
            )
    if traced.compiled:
        notes.append("torch.compile was ignored: the operators are those of the uncompiled model.")
    if traced.samples_repeated:
        notes.append("The data set is slow to read: a few samples were read and repeated to fill the batch.")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """Properties that a script can query of its GPU: name, memory, compute capability and number of multiprocessors.

    ``processor``: the target is a CPU that takes the place of a GPU. The script sees a GPU, but PyTorch selects the
    operators that it would select on the CPU.
    """

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    processor: bool = False
