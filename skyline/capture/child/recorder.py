"""Records a few iterations with PyTorch's profiler and turns its event tree into our rows."""

from __future__ import annotations

import gc
import json
import sys

import torch

from .event_tree import EventTree
from .gpu_events import gpu_records
from .line_samples import LineSamples

try:
    import resource
except ImportError:
    resource = None

# Kept from before the script could put something else in their place.
_open, _dump = open, json.dump

BOUNDARY = "skyline.boundary"

_LARGE_BYTES = 16 << 20
"""A recording that has taken as much memory holds some hundred thousand calls and operators."""


class Recorder:
    """One recording of a number of iterations; ``mark`` cuts it at each iteration boundary.

    A recording that has become large ends after the iteration that is under way.
    """

    def __init__(self, device_kind, with_stacks, marker, iterations):
        self._device_kind = device_kind
        self._with_stacks = with_stacks
        self._marker = marker
        self._samples = LineSamples() if with_stacks else None
        self._profiler = None
        self._began_bytes = _peak_bytes()
        self.remaining = iterations

    def start(self):
        """Begin with the first iteration."""
        self._profiler = self._new_profiler()
        self._profiler.start()
        if self._samples is not None:
            # After the profiler, which would otherwise trace this thread as well.
            self._samples.start()
        if self._with_stacks:
            self._marker.start()
        self._mark()

    def mark(self):
        """An iteration ends here, and the next one begins unless it was the last."""
        self._mark()
        self.remaining -= 1
        if self.remaining > 1 and _peak_bytes() - self._began_bytes > _LARGE_BYTES:
            # Millions of calls: another such iteration would take long to read and say little more.
            self.remaining = 1

    def _mark(self):
        with torch.autograd.profiler.record_function(BOUNDARY):
            pass

    def _new_profiler(self):
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device_kind == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        return torch.profiler.profile(
            activities=activities,
            with_stack=self._with_stacks,
            with_modules=self._with_stacks,
            record_shapes=self._with_stacks,
            profile_memory=True,
        )

    def _end_profiler(self):
        if self._with_stacks:
            self._marker.stop()
        if self._samples is not None:
            self._samples.stop()
        self._profiler.stop()

    def stop(self, loop):
        """End, and give the recording as a dictionary in the shape of ``skyline.trace.Trace``."""
        self._end_profiler()
        names = _module_names() if self._with_stacks else {}
        collects = gc.isenabled()
        # The millions of objects made here are no garbage: looking for it in them would take most of the time.
        gc.disable()
        try:
            return self._read(loop, names)
        finally:
            if collects:
                gc.enable()

    def _read(self, loop, names):
        # Kept to the end: the nodes of its tree point into it.
        results = self._profiler.profiler.kineto_results
        tree = EventTree(results.experimental_event_tree(), BOUNDARY, self._samples)
        trace = tree.trace(loop, names, self._device_kind)
        if self._device_kind == "cuda":
            trace["records"] += gpu_records(results.events(), trace["records"], tree)
        marks = trace["iterations"]
        return {"trace": trace, "recorded_ms": [(mark["end_us"] - mark["start_us"]) / 1e3 for mark in marks]}

    def write(self, recording, path):
        """Leave the recording in a file for the parent: it may be megabytes."""
        with _open(path, "w") as file:
            _dump(recording, file)


def _peak_bytes():
    """The most memory that the process has had; 0 where the system does not say."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _module_names():
    """Paths of all modules by their address: ``{id: "ResNet.layer1.conv"}``; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    names = {}
    for root in (module for module in modules if id(module) not in children):
        for name, module in root.named_modules(prefix=type(root).__name__):
            names.setdefault(id(module), name)
    return names
