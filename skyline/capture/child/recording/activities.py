"""The work of devices and the threads that called their runtime, from the events of any version's profiler."""

from __future__ import annotations

from typing import NamedTuple

from torch.autograd import DeviceType

from .node import RUNTIME

_COPIES = ("Memcpy", "Memset", "CopyHostToDevice", "CopyDeviceToHost", "CopyDeviceToDevice", "FillBuffer")
"""CUDA's names, and those that ROCm gives."""

_WAITS = ("Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event")
_LARGEST_CORRELATION = 1 << 62
"""Kineto's own remarks have the number -1, which is read as one without a sign."""


class Activity(NamedTuple):
    """A kernel, copy or fill on a stream of a device. Times are those of the profiler's clock."""

    name: str
    is_copy: bool
    start_ns: int
    duration_ns: int
    device: int
    stream: int
    correlation: int
    """The runtime's own number, which the launch carries too; the operator's is another."""


class Activities:
    """The facts that the profiler's list of events has and its tree has not.

    The tree holds devices' own events as if they were calls of the thread that profiled, and calls of the
    runtime without an operator around them as if that thread had made them. ``calls`` are the nodes of both;
    ``spans`` are the names of what was opened by hand, because before PyTorch 2.5 no event says that it shows
    such a span on the device. Before 2.4 events count in µs.
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
        """True if a node of the tree is no call but an event of a device's."""
        return self._key(node) in self._on_device

    def thread_of(self, node):
        """The thread that made a runtime call, in the tree's numbers where operators ran on it."""
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
            # The operator around it tells the thread.
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
    """True if a node of the tree may be a call of the device's runtime: Kineto's own remarks have no number."""
    return is_kineto(node) and 0 < node.correlation_id < _LARGEST_CORRELATION


def is_kineto(node):
    """True if a node of the tree was noted by Kineto, and not by PyTorch: a runtime call or a device's event."""
    return node.kind == RUNTIME


def _is_annotation(event, name, spans):
    """Spans that the script opened are shown on the device as well, around the kernels launched within them."""
    asked = getattr(event, "is_user_annotation", None)
    if asked is not None:
        return asked()
    # Its number is an operator's, which a launch may have as well.
    return name in spans
