"""The nodes of the profiler's event tree, with each fact read only once."""

from __future__ import annotations

import functools

CALL, CALL_IN_C, OPERATOR, SPAN, ALLOCATION, RUNTIME = range(6)
"""Kinds of nodes. A SPAN is opened by hand (record_function). RUNTIME nodes are Kineto's: runtime calls and events of
devices."""
_OTHER = -1
_KINDS = {
    "_ExtraFields_PyCall": CALL,
    "_ExtraFields_PyCCall": CALL_IN_C,
    "_ExtraFields_TorchOp": OPERATOR,
    "_ExtraFields_Allocation": ALLOCATION,
    "_ExtraFields_Kineto": RUNTIME,
}


class Node:
    """A node of the tree with its facts. The facts are copied because the profiler makes new objects at each access."""

    __slots__ = (
        "_name",
        "_node",
        "children",
        "correlation_id",
        "end_time_ns",
        "extra_fields",
        "kind",
        "start_tid",
        "start_time_ns",
    )

    def __init__(self, node):
        self._node, self._name = node, None
        self.children = ()
        self.extra_fields = fields = node.extra_fields
        self.kind = _KINDS.get(type(fields).__name__, _OTHER)
        if self.kind == OPERATOR and _is_by_hand(fields.scope):
            self.kind = SPAN
        self.start_time_ns, self.end_time_ns = node.start_time_ns, node.end_time_ns
        self.start_tid = node.start_tid
        self.correlation_id = node.correlation_id

    @property
    def name(self):
        """The name of the node, which the profiler composes at each access."""
        if self._name is None:
            self._name = self._node.name
        return self._name

    @property
    def id(self):
        """The profiler's number of the node."""
        return self._node.id


def nodes_of(roots, after_ns=0):
    """The roots of the profiler's tree as ``Node`` objects with all descendants; existing ``Node`` objects are kept.

    Work that ended before ``after_ns`` is left out.
    """
    roots = list(roots)
    if all(type(root) is Node for root in roots):
        return roots
    found = [(Node(root), root) for root in roots if root.end_time_ns >= after_ns]
    waiting = [*found]
    while waiting:
        node, told = waiting.pop()
        below = [(Node(child), child) for child in told.children if child.end_time_ns >= after_ns]
        node.children = [child for child, _ in below]
        waiting += below
    return [node for node, _ in found]


@functools.cache
def _is_by_hand(scope):
    return str(scope).endswith("USER_SCOPE")
