"""Records samples of the script's thread, for iterations with too many operators for PyTorch's profiler."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time

from .. import user_code
from ..observed_calls import ObservedCalls
from . import heap, memory
from .rows import coalesced, is_fetching

# Bound at import, before the script can replace them.
_open, _dumps, _clock = open, json.dumps, time.perf_counter

MOST_NODES = 60_000
"""Maximum number of operators with a gradient in an iteration that is recorded operator by operator."""
_EVERY_S = 0.001
_USUAL_SAMPLES = 4000
"""After this many samples, the pause between samples grows, so that long iterations have few more."""
_MEMORY_EVERY_S, _MEMORY_PAUSES = 0.02, 50
"""Minimum pause between two reads of the memory, in s and as a multiple of the time of a read."""
_NAME = "samples"
_MODULE_CALL = os.path.join("torch", "nn", "modules", "module.py")
_PHASES = {"data": "data", "backward": "backward", "optimizer": "optimizer", "closure": "forward"}


class Sample:
    """One sample of the thread: the time, the current part of the iteration, and the current lines.

    ``line`` is the innermost line of user code, ``call_line`` the line in the body of the training loop. Each is a
    file, a number and a function, or None.
    """

    __slots__ = ("call_line", "in_module", "line", "part", "time_s")

    def __init__(self, time_s, part, line, call_line, in_module):
        self.time_s = time_s
        self.part = part
        self.line = line
        self.call_line = call_line
        self.in_module = in_module


class ThreadSamples:
    """Samples a thread every millisecond. ``part()`` is the current part of the iteration."""

    def __init__(self, part, loop):
        self._part = part
        self._loop = loop
        self._over = threading.Event()
        self._thread = None
        self.taken = []
        self.most_bytes = 0
        """Maximum host memory in use at any read."""

    def start(self):
        """Watch the calling thread from now on."""
        self._thread = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)
        self._thread.start()

    def stop(self):
        """Stop watching; the samples are kept."""
        self._over.set()
        self._thread.join()

    def _watch(self, watched):
        began, memory_at = _clock(), 0.0
        pause_s = _EVERY_S
        while not self._over.wait(pause_s):
            now = _clock()
            pause_s = max(_EVERY_S, (now - began) / _USUAL_SAMPLES)
            # The frame must not be stored, because it keeps its variables alive, tensors among them.
            self.taken.append(self._look(now, sys._current_frames().get(watched)))
            if now >= memory_at:
                self.most_bytes = max(self.most_bytes, heap.in_use_bytes())
                # A read walks all free blocks of the C library, and blocks other threads meanwhile.
                memory_at = now + max(_MEMORY_EVERY_S, _MEMORY_PAUSES * (_clock() - now))

    def _look(self, now, frame):
        part, line, call_line, in_module = self._part(), None, None, False
        loop = self._loop or {}
        while frame is not None:
            code = frame.f_code
            if user_code.is_user_file(code.co_filename):
                here = code.co_filename, user_code.line_number(frame), user_code.qualified_name(code)
                line = line or here
                if code.co_firstlineno == loop.get("first_line") and os.path.realpath(here[0]) == loop.get(
                    "file"
                ):
                    call_line = here
            elif code.co_filename.endswith(_MODULE_CALL):
                in_module = True
            frame = frame.f_back
        return Sample(now, part, line, call_line, in_module)


class SampledRecording:
    """A recording of one iteration by samples, with the interface of ``Recordings``.

    ``nodes`` is the number of operators with a gradient in the iteration, 0 if unknown.
    """

    is_too_large = is_partly_read = False

    def __init__(self, devices, part, loop, nodes):
        self._devices = devices
        self._nodes = nodes
        self._samples = ThreadSamples(part, loop)
        self._marks = []
        self._allocator_peak = None
        self._end_bytes = 0
        self._result = None
        self.observed_calls = ObservedCalls()
        self.observed_calls.complete = False
        self.remaining = 1

    @property
    def wants_memory(self):
        """True if ``note_memory`` must still be called."""
        return self._result is not None and "memory" not in self._result

    @property
    def wants_facts(self):
        """True if ``note_facts`` must still be called."""
        return self._result is not None and "settings" not in self._result

    def start(self):
        """Begin with the next iteration."""
        self._devices.reset_peaks()
        self._samples.start()
        self._marks.append(_clock())

    def mark(self):
        """Mark the end of the iteration."""
        self._marks.append(_clock())
        self._allocator_peak = self._devices.peak_bytes()
        self.remaining -= 1

    def stop(self):
        """Stop recording: the iteration is done."""
        self._samples.stop()
        self._end_bytes = heap.in_use_bytes()

    def read(self, loop):
        """Make the trace. Returns False: nothing else needs to be recorded."""
        began, ended = self._marks
        records, lines = rows_of(self._samples.taken, began, ended)
        self._result = {
            "trace": {
                "iterations": [{"index": 0, "start_us": 0.0, "end_us": (ended - began) * 1e6}],
                "lines": lines,
                "modules": [],
                "functions": [],
                "shapes": [],
                "records": records,
                "allocations": [],
                "sampled": True,
            },
            "recorded_ms": [(ended - began) * 1e3],
            "operators_at_least": self._nodes,
        }
        return False

    def note_facts(self, told):
        """Store the settings, modules and calls of the run."""
        self._result.update(told)

    def note_memory(self, live, on_device):
        """Store the live memory by owner, and the device's memory, at the end of the iteration."""
        peak_bytes = memory.peak(live, ())
        if self._allocator_peak is not None:
            peak_bytes = self._allocator_peak
            if on_device is not None:
                on_device["allocated_peak_bytes"] = peak_bytes
        else:
            # The heap contains host tensors, and all other memory that an iteration allocates and frees.
            peak_bytes += max(0, self._samples.most_bytes - self._end_bytes)
        self._result.update(memory=live, peak_bytes=peak_bytes, device_memory=on_device)

    def end(self, loop):
        """Stop sampling: the script ended before the iteration did, and there is nothing to read."""
        if len(self._marks) == 1:
            self._samples.stop()

    def write(self, path):
        """Write the result, if there is any, to a file for the parent."""
        if self._result is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._result))


def rows_of(samples, began, ended):
    """Records that cover the iteration without gaps, and the table of their lines.

    A sample covers the time up to the midpoints between it and its neighbours.
    """
    lines, records = {}, []
    samples = [sample for sample in samples if began <= sample.time_s <= ended]
    if not samples:
        return [_record("other", -1, -1, 0.0, ended - began)], []
    phases = _phases(samples)
    starts = [began, *((a.time_s + b.time_s) / 2 for a, b in itertools.pairwise(samples))]
    for sample, phase, start, end in zip(samples, phases, starts, [*starts[1:], ended], strict=True):
        if end > start:
            records.append(
                _record(
                    phase,
                    _number(lines, sample.line),
                    _number(lines, sample.call_line),
                    start - began,
                    end - start,
                )
            )
    table = [
        {"file": os.path.realpath(file), "line": line, "function": function} for file, line, function in lines
    ]
    return coalesced(records), table


def _phases(samples):
    """The phase of each sample.

    Outside all timed parts, samples in modules and samples before the backward pass are forward; a statement that
    fetches a batch by hand is data.
    """
    found = []
    before_backward = False
    for sample in reversed(samples):
        if sample.part is not None:
            before_backward = sample.part == "backward" or (before_backward and sample.part == "closure")
            found.append(_PHASES.get(sample.part, "other"))
        elif sample.in_module:
            found.append("forward")
        elif sample.call_line is not None and _fetches(sample.call_line):
            found.append("data")
        else:
            found.append("forward" if before_backward else "other")
    return found[::-1]


def _fetches(place):
    file, line, _ = place
    return is_fetching({"file": file, "line": line})


def _number(lines, place):
    return -1 if place is None else lines.setdefault(place, len(lines))


def _record(phase, line, call_line, start_s, duration_s):
    return {
        "name": _NAME,
        "kind": "data" if phase == "data" else "operator",
        "phase": phase,
        "lane": "cpu:main",
        "iteration": 0,
        "start_us": start_s * 1e6,
        "duration_us": duration_s * 1e6,
        "line": line,
        "call_line": call_line,
        "module": -1,
        "function": -1,
        "recording_us": 0.0,
        "whole": False,
    }
