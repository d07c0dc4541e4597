"""Backward passes that run on a separate thread."""

from __future__ import annotations

from .node import CALL_IN_C

BACKWARD_PREFIX = "autograd::engine::evaluate_function: "


def nest_backward_thread(main, others):
    """Nest the work of autograd's thread under the calls in which the script's thread waits for it.

    The backward pass of a GPU runs on a thread of autograd while the script's thread waits inside ``backward()``.
    The work of the busiest such thread is attributed to the script's thread. ``main`` and ``others`` are roots of the
    event tree. Returns the nested roots by the id of the waiting node, and the remaining roots.
    """
    work = {}
    for root in others:
        if root.name.startswith(BACKWARD_PREFIX):
            work[root.start_tid] = work.get(root.start_tid, 0) + root.end_time_ns - root.start_time_ns
    if not work:
        return {}, others
    busiest = max(work, key=work.get)
    calls = _engine_calls(main)
    nested, left = {}, []
    for root in others:
        waiting = next((node for node in calls if root.start_tid == busiest and _has_room(node, root)), None)
        if waiting is None:
            left.append(root)
        else:
            nested.setdefault(waiting.id, []).append(root)
    return nested, left


def _engine_calls(roots):
    """The outermost calls into autograd's engine."""
    found, pending = [], list(roots)
    while pending:
        node = pending.pop()
        if node.kind == CALL_IN_C and "run_backward" in node.name:
            found.append(node)
        else:
            pending.extend(node.children)
    return found


def _has_room(call, root):
    inside = call.start_time_ns <= root.start_time_ns and root.end_time_ns <= call.end_time_ns
    return inside and not any(
        root.start_time_ns < child.end_time_ns and child.start_time_ns < root.end_time_ns
        for child in call.children
    )
