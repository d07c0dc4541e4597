"""The nodes of the profiler's event tree, each fact of which is asked for once."""

from __future__ import annotations

import functools

CALL, CALL_IN_C, OPERATOR, SPAN, ALLOCATION, RUNTIME = range(6)
"""Kinds of nodes. A span was opened by hand (record_function); Kineto noted runtime calls and devices' events."""
_OTHER = -1
_KINDS = {
    "_ExtraFields_PyCall": CALL,
    "_ExtraFields_PyCCall": CALL_IN_C,
    "_ExtraFields_TorchOp": OPERATOR,
    "_ExtraFields_Allocation": ALLOCATION,
    "_ExtraFields_Kineto": RUNTIME,
}


class Node:
    """A node of the tree with its facts. The profiler makes new objects each time that it is asked for one."""

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
        """Its name, which is put together from several facts."""
        if self._name is None:
            self._name = self._node.name
        return self._name

    @property
    def id(self):
        """The profiler's number of it."""
        return self._node.id


def nodes_of(roots, after_ns=0):
    """The roots of the profiler's tree as nodes, with all below them; nodes stay as they are.

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
