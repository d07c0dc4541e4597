"""Work of devices, and threads that called their runtime, from the profiler's events in any PyTorch version."""

from __future__ import annotations

from typing import NamedTuple

from torch.autograd import DeviceType

from .node import RUNTIME

_COPIES = ("Memcpy", "Memset", "CopyHostToDevice", "CopyDeviceToHost", "CopyDeviceToDevice", "FillBuffer")
"""Prefixes of copies and fills in CUDA and in ROCm."""

_WAITS = ("Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event")
_LARGEST_CORRELATION = 1 << 62
"""Kineto's own annotations have the number -1, which is read as a large unsigned number."""


class Activity(NamedTuple):
    """A kernel, copy or fill on a stream of a device. Times are from the profiler's clock."""

    name: str
    is_copy: bool
    start_ns: int
    duration_ns: int
    device: int
    stream: int
    correlation: int
    """The runtime's number, which the launch has too; the operator has another number."""


class Activities:
    """Facts that are in the profiler's list of events but not in its tree.

    The tree contains events of devices as if they were calls of the profiling thread, and attributes runtime calls
    without an enclosing operator to that thread. ``calls`` are the nodes of both kinds. ``spans`` are the names of
    spans opened by hand, because before PyTorch 2.5 an event does not show that it mirrors such a span on the device.
    Before PyTorch 2.4 times of events are in µs.
    """

    def __init__(self, events, calls, spans):
        self.work = []
        self._unit_ns = 1
        self._on_device = set()
        self._resources = {}
        self._threads = {}
        events = list(events)
        if events and not hasattr(events[0], "start_ns"):
            self._unit_ns = 1000
        nodes = {self._key(node): node for node in calls if is_call(node)}
        for event in events:
            if event.device_type() == DeviceType.CPU:
                self._heard_of_thread(event, nodes)
            else:
                self._note(event, spans)

    def is_on_device(self, node):
        """True if a node of the tree is an event of a device, not a call."""
        return self._key(node) in self._on_device

    def thread_of(self, node):
        """The thread that made a runtime call; with the tree's number if operators ran on it."""
        resource = self._resources.get(self._key(node))
        if resource is None:
            return node.start_tid
        return self._threads.get(resource, f"os{resource}")

    def _key(self, node):
        return node.start_time_ns // self._unit_ns, node.correlation_id, node.name

    def _heard_of_thread(self, event, nodes):
        if getattr(event, "is_python_function", bool)():
            return
        resource = event.device_resource_id()
        correlation = event.correlation_id()
        if not 0 < correlation < _LARGEST_CORRELATION:
            return
        key = self._start(event), correlation, event.name()
        node = nodes.get(key)
        if node is None:
            self._threads.setdefault(resource, event.start_thread_id())
            return
        self._resources[key] = resource
        if event.linked_correlation_id():
            # The enclosing operator shows the thread.
            self._threads.setdefault(resource, node.start_tid)

    def _note(self, event, spans):
        name, correlation = event.name(), event.correlation_id()
        self._on_device.add((self._start(event), correlation, name))
        if name in _WAITS or _is_annotation(event, name, spans):
            return
        self.work.append(
            Activity(
                name,
                name.startswith(_COPIES),
                self._start(event) * self._unit_ns,
                event.duration_ns() if self._unit_ns == 1 else event.duration_us() * 1000,
                event.device_index(),
                event.device_resource_id(),
                correlation,
            )
        )

    def _start(self, event):
        return event.start_ns() if self._unit_ns == 1 else event.start_us()


def is_call(node):
    """True if a node of the tree may be a call of the device's runtime. Kineto's annotations have no valid number."""
    return is_kineto(node) and 0 < node.correlation_id < _LARGEST_CORRELATION


def is_kineto(node):
    """True if a node of the tree comes from Kineto, not from PyTorch: a runtime call or an event of a device."""
    return node.kind == RUNTIME


def _is_annotation(event, name, spans):
    """True if an event mirrors a span of the script on the device, around the kernels launched within it."""
    asked = getattr(event, "is_user_annotation", None)
    if asked is not None:
        return asked()
    # The number cannot decide: it is that of an operator, and a launch may have the same number.
    return name in spans
