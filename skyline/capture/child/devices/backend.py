"""Queries PyTorch's module for one kind of accelerator, without initialising it."""

from __future__ import annotations

import contextlib
import os

import torch

CPU = "cpu"
_KNOWN = ("cuda", "xpu", "mps")
_GRAPHS = ("CUDAGraph", "XPUGraph")
_UNNAMED = "privateuseone"
_NO_EVENTS = (AttributeError, NotImplementedError, RuntimeError, TypeError)
"""Errors of backends without timing events."""
_ACCELERATOR_NAMES = {"mem_get_info": "get_memory_info"}
"""Names that differ in ``torch.accelerator``."""
_WITHOUT_INITIALISING = "PYTORCH_NVML_BASED_CUDA_CHECK"


class Backend:
    """The devices of one kind, by index. Facts that this version of PyTorch does not report are None or 0."""

    def __init__(self, kind, module):
        self.kind = kind
        self._module = module

    def is_used(self):
        """True if this process uses the backend."""
        return bool(self._asked("is_initialized"))

    def count(self):
        """The number of devices. Call it only for a backend in use, because it may initialise the backend."""
        return self._asked("device_count") or 0

    def current(self):
        """The index of the default device."""
        return self._asked("current_device") or 0

    def wait(self, index):
        """Wait until all work launched on the device is done."""
        self._module.synchronize(index)

    def event(self, index):
        """A timing event, recorded now on the script's current stream."""
        event = self._module.Event(enable_timing=True)
        event.record(self._module.current_stream(index))
        return event

    def event_with_query(self, index):
        """A timing event with a ``query`` method that shows if the device has reached it; None if not supported."""
        try:
            event = self.event(index)
        except _NO_EVENTS:
            return None
        return event if hasattr(event, "query") else None

    def times(self, index):
        """True if events measure times."""
        try:
            first, second = self.event(index), self.event(index)
            second.synchronize()
            return first.elapsed_time(second) >= 0
        except _NO_EVENTS:
            return False

    def is_capturing(self):
        """True if launches are captured in a graph instead of executed."""
        return bool(self._asked("is_current_stream_capturing"))

    def allocated_bytes(self, index):
        """Bytes of all tensors on the device."""
        nested = self._nested_stats(index)
        if nested is not None:
            return nested["allocated_bytes"]["all"]["current"]
        return self._asked("memory_allocated", index) or 0

    def _nested_stats(self, index):
        """The statistics of CUDA's allocator as nested dictionaries: the flat form takes five times as long."""
        ask = getattr(torch._C, "_cuda_memoryStats", None) if self._module is torch.cuda else None
        return ask(index) if ask is not None else None

    def reserved_bytes(self, index):
        """Bytes that the allocator has reserved on the device."""
        return self._asked("memory_reserved", index) or 0

    def peak_bytes(self, index):
        """Maximum bytes of tensors since ``reset_peak``; None if not tracked."""
        return self._asked("max_memory_allocated", index)

    def reset_peak(self, index):
        """Reset the peak to the bytes in use now."""
        self._asked("reset_peak_memory_stats", index)

    def free_and_total_bytes(self, index):
        """Free and total bytes of the device's memory, for all processes together; None if unknown."""
        told = self._asked("mem_get_info", index)
        return None if told is None else (int(told[0]), int(told[1]))

    def stats(self, index):
        """Statistics of the caching allocator."""
        return self._asked("memory_stats", index) or {}

    def empty_cache(self):
        """Free the memory of the allocator that no tensor uses."""
        self._asked("empty_cache")

    def name(self, index):
        """The vendor's name; empty if unknown."""
        return self._asked("get_device_name", index) or ""

    def identity(self, index):
        """The driver's identifier of the device (``GPU-…``); empty if unknown."""
        uuid = getattr(self._asked("get_device_properties", index), "uuid", None)
        if uuid is None:
            return ""
        text = str(uuid)
        return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"

    def capability(self, index):
        """The compute capability of the device; None if it has none."""
        told = self._asked("get_device_capability", index)
        return list(told) if isinstance(told, (tuple, list)) else None

    def processes(self, index):
        """The driver's text about the processes on the device."""
        return self._asked("list_gpu_processes", index) or ""

    def random_state(self, index):
        """The state of the device's random numbers."""
        return self._asked("get_rng_state", index)

    def set_random_state(self, index, state):
        """Restore a state of the device's random numbers from ``random_state``."""
        if state is not None:
            self._asked("set_rng_state", state, index)

    def graph_class(self):
        """The class of captured graphs, or None."""
        return next(filter(None, (getattr(self._module, name, None) for name in _GRAPHS)), None)

    def _asked(self, name, *arguments):
        try:
            ask = getattr(self._module, name, None) or self._accelerators(name)
            return ask(*arguments) if ask is not None else None
        except (AssertionError, AttributeError, NotImplementedError, RuntimeError, TypeError):
            # PyTorch is built without it, the allocator keeps no statistics, or the version does not report it.
            return None

    def _accelerators(self, name):
        """The same function of ``torch.accelerator``, if that module is about this kind; it supports only one kind."""
        common = getattr(torch, "accelerator", None)
        kind = common.current_accelerator() if common is not None else None
        if kind is None or kind.type != self.kind:
            return None
        return getattr(common, _ACCELERATOR_NAMES.get(name, name), None)


class AppleBackend(Backend):
    """Apple's GPU. Its module has one device, other names for memory functions, and another clock for events."""

    def is_used(self):
        """True if tensors are on it, since PyTorch has no other query."""
        return torch.backends.mps.is_available() and self.allocated_bytes(0) > 0

    def count(self):
        """Always one."""
        return 1

    def current(self):
        """Always 0, the only device."""
        return 0

    def wait(self, index):
        """Wait until all work is done."""
        self._module.synchronize()

    def times(self, index):
        """False: its events do not follow the stream's clock."""
        return False

    def allocated_bytes(self, index):
        """Bytes of all tensors on the device."""
        return self._asked("current_allocated_memory") or 0

    def reserved_bytes(self, index):
        """Bytes that Metal has allocated for this process."""
        return self._asked("driver_allocated_memory") or 0

    def peak_bytes(self, index):
        """None: the peak is not tracked."""
        return

    def reset_peak(self, index):
        """Do nothing: the peak is not tracked."""

    def free_and_total_bytes(self, index):
        """Free and total bytes of the part of the shared memory that Metal recommends to use."""
        total = self._asked("recommended_max_memory")
        return None if not total else (max(0, total - self.reserved_bytes(index)), total)

    def stats(self, index):
        """No statistics."""
        return {}

    def name(self, index):
        """The vendor's name."""
        ask = getattr(torch.backends.mps, "get_name", None)
        return ask() if ask is not None else "Apple GPU"

    def random_state(self, index):
        """The state of the device's random numbers."""
        return self._asked("get_rng_state")

    def set_random_state(self, index, state):
        """Restore a state of the device's random numbers."""
        if state is not None:
            self._asked("set_rng_state", state)


def kinds():
    """Kinds of accelerators that this PyTorch supports, even if there are none here."""
    own = torch._C._get_privateuse1_backend_name()
    return _KNOWN if own == _UNNAMED else (*_KNOWN, own)


def backend_of(kind):
    """The backend of a kind of device; None for the CPU and for unsupported kinds."""
    if kind not in kinds():
        return None
    module = getattr(torch, kind, None)
    if module is None:
        return None
    return AppleBackend(kind, module) if kind == "mps" else Backend(kind, module)


def used_backends():
    """The backends that this process uses."""
    found = (backend_of(kind) for kind in kinds())
    return [backend for backend in found if backend is not None and backend.is_used()]


def is_capturing():
    """True if launches are captured in a graph: waits are forbidden, and nothing is executed yet."""
    return any(backend.is_capturing() for backend in used_backends())


def is_available(kind):
    """True if there is such a device. The query leaves the device usable in forked processes."""
    module = getattr(torch, kind, None)
    if module is None:
        return False
    before = os.environ.get(_WITHOUT_INITIALISING)
    os.environ[_WITHOUT_INITIALISING] = "1"
    try:
        return bool(module.is_available())
    finally:
        if before is None:
            del os.environ[_WITHOUT_INITIALISING]
        else:
            os.environ[_WITHOUT_INITIALISING] = before


def profiler_activities(kind):
    """The activities that PyTorch's profiler records for a script on this kind of device."""
    known = torch.profiler.ProfilerActivity
    names = {"cuda": "CUDA", "xpu": "XPU", CPU: "", "mps": ""}
    own = getattr(known, names.get(kind, "PrivateUse1") or "CPU", None)
    return [known.CPU] if own is None or own == known.CPU else [known.CPU, own]


def free_bytes(devices):
    """The minimum free bytes over these devices; None if all are host devices or do not report it."""
    told = []
    for device in set(devices):
        backend = backend_of(device.type)
        index = 0 if backend is None else backend.current() if device.index is None else device.index
        told.append(None if backend is None else backend.free_and_total_bytes(index))
    return min((free for free, _ in filter(None, told)), default=None)


def random_states():
    """Random states of the host and of every device in use, for comparison; no random number is drawn."""
    states = [torch.get_rng_state()]
    for backend in used_backends():
        with contextlib.suppress(Exception):
            states.append(backend.random_state(backend.current()))
    return states
