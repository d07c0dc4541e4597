"""Records a few iterations with PyTorch's profiler, and converts its event tree to rows."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings

import torch

from ..devices.backend import CPU, profiler_activities
from . import heap
from .event_tree import EventTree
from .line_samples import LineSamples
from .nesting import nested

# Bound at import, before the script can replace it.
_clock_ns = time.time_ns

BOUNDARY = "skyline.boundary"

_LARGE_BYTES = 6 << 20
"""A recording that takes this much memory per iteration has about two hundred thousand calls."""
_MOST_EVENTS = 1_000_000
"""Maximum number of events that are read."""


class Recorder:
    """One recording of several iterations; ``mark`` is called at each iteration boundary.

    A ``full`` recording has shapes and allocations, and the line of every operator by the ``marker`` (None: only
    allocations, without lines); it ends early once it is large. Other recordings have only operators and calls, which
    slows down the script least. ``operator_lines`` passes lines from the former to the latter.
    """

    def __init__(self, device_kind, iterations, marker=None, operator_lines=None, full=True, samples=True):
        self._device_kind = device_kind
        self._with_stacks = operator_lines is not None
        self._full = full
        self._marker = marker
        self._operator_lines = operator_lines
        self._samples = LineSamples() if samples and self._with_stacks else None
        self._profiler = None
        self._began_bytes = 0
        self._is_large = False
        self._marked_ns = []
        self.observed_calls = None
        self.remaining = iterations

    @property
    def whole(self):
        """Number of complete iterations in the recording."""
        return max(0, len(self._marked_ns) - 1)

    @property
    def has_long_stretches(self):
        """True if Python ran so long without calls that samples were needed to find the lines."""
        return self._samples is not None and self._samples.told

    def start(self):
        """Begin with the first iteration."""
        self._profiler = self._new_profiler()
        with warnings.catch_warnings():
            # From version 2.10 on, PyTorch warns about profiler cycles at each start; there are none here.
            warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
            self._profiler.start()
        if self._samples is not None:
            # This thread starts after the profiler, which would otherwise trace it as well.
            self._samples.start()
        if self._marker is not None:
            self._marker.start()
        self._began_bytes = heap.used_bytes()
        self._mark()

    def mark(self):
        """Mark the end of an iteration, and the start of the next one unless it was the last."""
        self._mark()
        self.remaining -= 1
        self._is_large = heap.used_bytes() - self._began_bytes > _LARGE_BYTES
        if self._full and self._with_stacks and self.remaining and self._is_large:
            # Another such iteration would take seconds to read, and add little information.
            self.remaining = 0

    def _mark(self):
        self._marked_ns.append(_clock_ns())
        with torch.autograd.profiler.record_function(BOUNDARY):
            pass

    def _new_profiler(self):
        # Without stacks only allocations matter, and a span mirrored on the device may hide them in the tree.
        watched = self._device_kind if self._with_stacks else CPU
        return torch.profiler.profile(
            activities=profiler_activities(watched),
            with_stack=self._with_stacks,
            record_shapes=self._with_stacks and self._full,
            profile_memory=self._full,
        )

    def stop(self):
        """Stop recording."""
        if self._marker is not None:
            self._marker.stop()
        if self._samples is not None:
            self._samples.stop()
        self._profiler.stop()
        _end_spans()

    @property
    def is_too_large(self):
        """True after ``stop`` if there are more events than can be read in reasonable time."""
        return self._is_large and len(self._profiler.profiler.kineto_results.events()) > _MOST_EVENTS

    def drop(self):
        """Free the recorded events, after ``stop``."""
        self._profiler.profiler = self._profiler = None
        gc.collect(1)

    def read_last(self, loop, module_names, evaluated=None):
        """Like ``read``, but only the last iteration of a full recording on a CPU. ``read`` must follow."""
        try:
            with _without_collecting():
                return self._read(loop, module_names, evaluated or {}, last=True)
        except Exception:
            self.drop()
            raise

    def read(self, loop, module_names, evaluated=None):
        """The recording as a dictionary with the fields of ``skyline.trace.Trace``, after ``stop``.

        After a full recording, ``observed_calls`` is set; ``evaluated`` has the modules in evaluation mode for it.

        The profiler's data is freed here. Freeing it after another recording has begun would corrupt the heap, and
        the profiler has reference cycles, so that it would live until the next garbage collection.
        """
        with _without_collecting():
            try:
                return self._read(loop, module_names, evaluated or {})
            finally:
                # A collection of the young generation is enough, because the objects were created here.
                self.drop()

    def _read(self, loop, module_names, evaluated, *, last=False):
        # This reference must live until the end: the nodes of the tree point into the results.
        results = self._profiler.profiler.kineto_results
        roots, work = results.experimental_event_tree(), ()
        if self._device_kind != CPU:
            roots, work = nested(roots, results.events())
        lines, after_ns = (None, self._marked_ns[-2]) if last else (self._operator_lines, 0)
        tree = EventTree(roots, BOUNDARY, self._samples, lines, self._full, after_ns)
        trace = tree.trace(loop, module_names, self._device_kind)
        if self._full:
            self.observed_calls = tree.observed_calls(evaluated)
        trace["records"] += gpu_records(work, trace["records"], tree)
        return trace


@contextlib.contextmanager
def _without_collecting():
    """Disable garbage collection: it would take most of the time, and the millions of new objects are no garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _end_spans():
    """End spans that the script opened in this recording and has not closed yet.

    If they ended in another recording, their end would be written to the freed events of this one.
    """
    span_type = torch.autograd.profiler.record_function
    for thing in gc.get_objects():
        if type(thing) is span_type and thing.record is not None:
            thing.record = torch.ops.profiler._record_function_enter_new(thing.name, None)


_COLLECTIVES = ("nccl", "rccl", "ncclDevKernel", "ncclKernel")
_OF_THE_LAUNCH = ("phase", "line", "call_line", "module", "function")


def gpu_records(work, records, tree):
    """Records of the devices' streams within the recorded iterations.

    A kernel belongs to the line that launched it; all kernels of a CUDA graph belong to the line that launched the
    graph. ``work`` has ``Activity`` objects, ``records`` the rows of the threads.
    """
    launches = {
        record["correlation"]: record
        for record in records
        if record["kind"] == "runtime" and record["correlation"]
    }
    rows = []
    for activity in work:
        start_us = tree.microseconds(activity.start_ns)
        iteration = tree.iteration_at(start_us)
        if iteration is None or activity.duration_ns <= 0:
            continue
        row = {
            "name": activity.name,
            "kind": "copy" if activity.is_copy else "kernel",
            "phase": "other",
            "lane": f"gpu{activity.device}:stream{activity.stream}",
            "iteration": iteration,
            "start_us": start_us,
            "duration_us": activity.duration_ns / 1e3,
            "correlation": activity.correlation,
            "shape": tree.multiplied(activity.correlation),
            "whole": False,
        }
        launch = launches.get(activity.correlation)
        if launch is not None:
            row.update({key: launch[key] for key in _OF_THE_LAUNCH})
        if activity.name.startswith(_COLLECTIVES):
            row["phase"] = "communication"
        rows.append(row)
    return rows
