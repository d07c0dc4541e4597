"""Records a few iterations with PyTorch's profiler and turns its event tree into our rows."""

from __future__ import annotations

import gc
import json

import torch
from torch.overrides import TorchFunctionMode

from .event_tree import EventTree
from .gpu_events import gpu_records

BOUNDARY = "skyline.boundary"


class _LineMarker(TorchFunctionMode):
    """Puts a Python call under every torch call, so that ``a @ b`` too is seen with the line it stands on.

    The profiler's Python tracer notes the caller's line of each call, but operators written as symbols make
    no call of their own.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Recorder:
    """One recording, from ``start`` to ``stop``; ``mark`` cuts it at each iteration boundary."""

    def __init__(self, device_kind, with_stacks):
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device_kind == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._device_kind = device_kind
        self._with_stacks = with_stacks
        self._profiler = torch.profiler.profile(
            activities=activities, with_stack=with_stacks, with_modules=with_stacks, profile_memory=True
        )
        # A function mode changes what compiled code is guarded on and would make it compile again.
        self._marker = _LineMarker() if with_stacks and not _uses_compiled_code() else None

    def start(self):
        """Begin; what runs before the first mark is dropped."""
        self._profiler.start()
        if self._marker is not None:
            self._marker.__enter__()

    def mark(self):
        """An iteration ends and the next one begins here."""
        with torch.autograd.profiler.record_function(BOUNDARY):
            pass

    def stop(self, loop):
        """End, and give the recording as a dictionary in the shape of ``skyline.trace.Trace``."""
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
        self._profiler.stop()
        results = self._profiler.profiler.kineto_results
        tree = EventTree(results.experimental_event_tree(), BOUNDARY)
        names = _module_names() if self._with_stacks else {}
        trace = tree.trace(loop, names, self._device_kind)
        if self._device_kind == "cuda":
            trace["records"] += gpu_records(results, tree)
        marks = trace["iterations"]
        return {"trace": trace, "recorded_ms": [(mark["end_us"] - mark["start_us"]) / 1e3 for mark in marks]}

    def write(self, recording, path):
        """Leave the recording in a file for the parent: it may be megabytes."""
        with open(path, "w") as file:
            json.dump(recording, file)


def _uses_compiled_code():
    import sys

    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and getattr(dynamo, "counters", {}).get("frames"))


def _module_names():
    """Paths of all modules by their address: ``{id: "ResNet.layer1.conv"}``; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    names = {}
    for root in (module for module in modules if id(module) not in children):
        for name, module in root.named_modules(prefix=type(root).__name__):
            names.setdefault(id(module), name)
    return names
