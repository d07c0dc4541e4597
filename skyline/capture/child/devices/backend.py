"""One kind of accelerator, as PyTorch's module for it answers; nothing is initialised by asking."""

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
    """The devices of one kind, by their index. Facts that this version of PyTorch does not report are None or 0."""

    def __init__(self, kind, module):
        self.kind = kind
        self._module = module

    def is_used(self):
        """True if this process has begun to use it."""
        return bool(self._asked("is_initialized"))

    def count(self):
        """The number of devices; ask only a backend in use, since the answer may initialise it."""
        return self._asked("device_count") or 0

    def current(self):
        """The index of the one that is used where none is named."""
        return self._asked("current_device") or 0

    def wait(self, index):
        """Until everything that was launched on it is done."""
        self._module.synchronize(index)

    def event(self, index):
        """A timing event, recorded now on the stream that the script launches into."""
        event = self._module.Event(enable_timing=True)
        event.record(self._module.current_stream(index))
        return event

    def event_with_query(self, index):
        """Such an event that also tells whether the device has reached it; None where there is none."""
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
        """True if launches go into a graph and are not executed."""
        return bool(self._asked("is_current_stream_capturing"))

    def allocated_bytes(self, index):
        """Bytes of tensors."""
        nested = self._nested_stats(index)
        if nested is not None:
            return nested["allocated_bytes"]["all"]["current"]
        return self._asked("memory_allocated", index) or 0

    def _nested_stats(self, index):
        """The statistics of CUDA's allocator as nested dictionaries: the flat form takes five times as long."""
        ask = getattr(torch._C, "_cuda_memoryStats", None) if self._module is torch.cuda else None
        return ask(index) if ask is not None else None

    def reserved_bytes(self, index):
        """Bytes that the allocator took from the device."""
        return self._asked("memory_reserved", index) or 0

    def peak_bytes(self, index):
        """The most that tensors used since ``reset_peak``; None where it is not kept."""
        return self._asked("max_memory_allocated", index)

    def reset_peak(self, index):
        """The peak is counted from what is used now."""
        self._asked("reset_peak_memory_stats", index)

    def free_and_total_bytes(self, index):
        """Of the device's memory, by whomever it is used; None where it is not told."""
        told = self._asked("mem_get_info", index)
        return None if told is None else (int(told[0]), int(told[1]))

    def stats(self, index):
        """Statistics of the caching allocator."""
        return self._asked("memory_stats", index) or {}

    def empty_cache(self):
        """Give back what the allocator keeps of memory that no tensor uses."""
        self._asked("empty_cache")

    def name(self, index):
        """The vendor's name; empty if unknown."""
        return self._asked("get_device_name", index) or ""

    def identity(self, index):
        """The driver's identity of the device, as ``GPU-…``; empty if unknown."""
        uuid = getattr(self._asked("get_device_properties", index), "uuid", None)
        if uuid is None:
            return ""
        text = str(uuid)
        return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"

    def capability(self, index):
        """Its compute capability, where it has one."""
        told = self._asked("get_device_capability", index)
        return list(told) if isinstance(told, (tuple, list)) else None

    def processes(self, index):
        """The driver's text about the processes that use it."""
        return self._asked("list_gpu_processes", index) or ""

    def random_state(self, index):
        """The state of its random numbers."""
        return self._asked("get_rng_state", index)

    def set_random_state(self, index, state):
        """Put a state of its random numbers back, as ``random_state`` gave it."""
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
            # Built without it, with an allocator that keeps no account, or by a version that does not tell.
            return None

    def _accelerators(self, name):
        """The same call of PyTorch's common module, where that speaks of this kind: it answers for one alone."""
        common = getattr(torch, "accelerator", None)
        kind = common.current_accelerator() if common is not None else None
        if kind is None or kind.type != self.kind:
            return None
        return getattr(common, _ACCELERATOR_NAMES.get(name, name), None)


class AppleBackend(Backend):
    """Apple's GPU. Its module knows one device, and has other names for memory and another clock for events."""

    def is_used(self):
        """True if tensors are on it, since PyTorch has no other query."""
        return torch.backends.mps.is_available() and self.allocated_bytes(0) > 0

    def count(self):
        """Always one."""
        return 1

    def current(self):
        """The only one."""
        return 0

    def wait(self, index):
        """Until all work is done."""
        self._module.synchronize()

    def times(self, index):
        """False: its events do not follow the stream's clock."""
        return False

    def allocated_bytes(self, index):
        """Bytes of tensors."""
        return self._asked("current_allocated_memory") or 0

    def reserved_bytes(self, index):
        """Bytes that Metal took for this process."""
        return self._asked("driver_allocated_memory") or 0

    def peak_bytes(self, index):
        """None: no peak is kept."""
        return

    def reset_peak(self, index):
        """No effect: no peak is kept."""

    def free_and_total_bytes(self, index):
        """Of what Metal recommends to use of the memory that it shares with the host."""
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
        """The state of its random numbers."""
        return self._asked("get_rng_state")

    def set_random_state(self, index, state):
        """Put a state of its random numbers back."""
        if state is not None:
            self._asked("set_rng_state", state)


def kinds():
    """Kinds of accelerators that this PyTorch can know, whether there are any or not."""
    own = torch._C._get_privateuse1_backend_name()
    return _KNOWN if own == _UNNAMED else (*_KNOWN, own)


def backend_of(kind):
    """The backend of a kind of device; None for the CPU and for what is not told about."""
    if kind not in kinds():
        return None
    module = getattr(torch, kind, None)
    if module is None:
        return None
    return AppleBackend(kind, module) if kind == "mps" else Backend(kind, module)


def used_backends():
    """Those that this process has begun to use."""
    found = (backend_of(kind) for kind in kinds())
    return [backend for backend in found if backend is not None and backend.is_used()]


def is_capturing():
    """True if launches go into a graph: nothing may be waited for, and nothing is executed yet."""
    return any(backend.is_capturing() for backend in used_backends())


def is_available(kind):
    """True if there is such a device, asked in a way after which forked processes can still use it."""
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
    """The least that is free on one of these devices; None where all of them are the host's, or do not tell."""
    told = []
    for device in set(devices):
        backend = backend_of(device.type)
        index = 0 if backend is None else backend.current() if device.index is None else device.index
        told.append(None if backend is None else backend.free_and_total_bytes(index))
    return min((free for free, _ in filter(None, told)), default=None)


def random_states():
    """Of the host and of every device in use, to be compared; no random number is drawn."""
    states = [torch.get_rng_state()]
    for backend in used_backends():
        with contextlib.suppress(Exception):
            states.append(backend.random_state(backend.current()))
    return states
