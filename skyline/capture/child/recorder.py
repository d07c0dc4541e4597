"""Records a few iterations with PyTorch's profiler and turns its event tree into our rows."""

from __future__ import annotations

import gc
import json

import torch

from .event_tree import EventTree
from .gpu_events import gpu_records
from .line_samples import LineSamples

# Kept from before the script could put something else in their place.
_open, _dump = open, json.dump

BOUNDARY = "skyline.boundary"


class Recorder:
    """One recording, from ``start`` to ``stop``; ``mark`` cuts it at each iteration boundary."""

    def __init__(self, device_kind, with_stacks, marker=None):
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device_kind == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._device_kind = device_kind
        self._with_stacks = with_stacks
        self._profiler = torch.profiler.profile(
            activities=activities,
            with_stack=with_stacks,
            with_modules=with_stacks,
            record_shapes=with_stacks,
            profile_memory=True,
        )
        self._marker = marker if with_stacks else None
        self._samples = LineSamples() if with_stacks else None

    def start(self):
        """Begin; what runs before the first mark is dropped."""
        self._profiler.start()
        if self._samples is not None:
            # After the profiler, which would otherwise trace this thread as well.
            self._samples.start()
        if self._marker is not None:
            self._marker.start()

    def mark(self):
        """An iteration ends and the next one begins here."""
        with torch.autograd.profiler.record_function(BOUNDARY):
            pass

    def stop(self, loop):
        """End, and give the recording as a dictionary in the shape of ``skyline.trace.Trace``."""
        if self._marker is not None:
            self._marker.stop()
        if self._samples is not None:
            self._samples.stop()
        self._profiler.stop()
        results = self._profiler.profiler.kineto_results
        tree = EventTree(results.experimental_event_tree(), BOUNDARY, self._samples)
        names = _module_names() if self._with_stacks else {}
        trace = tree.trace(loop, names, self._device_kind)
        if self._device_kind == "cuda":
            trace["records"] += gpu_records(results.events(), trace["records"], tree)
        marks = trace["iterations"]
        return {"trace": trace, "recorded_ms": [(mark["end_us"] - mark["start_us"]) / 1e3 for mark in marks]}

    def write(self, recording, path):
        """Leave the recording in a file for the parent: it may be megabytes."""
        with _open(path, "w") as file:
            _dump(recording, file)


def _module_names():
    """Paths of all modules by their address: ``{id: "ResNet.layer1.conv"}``; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    names = {}
    for root in (module for module in modules if id(module) not in children):
        for name, module in root.named_modules(prefix=type(root).__name__):
            names.setdefault(id(module), name)
    return names
