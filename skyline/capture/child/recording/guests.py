"""Backward passes that run on a thread of their own."""

from __future__ import annotations

BACKWARD_PREFIX = "autograd::engine::evaluate_function: "


def seat_guests(main, others):
    """Places work of another thread where the script's thread waits for it.

    A GPU's backward pass runs on a thread of autograd's while the script's thread stands still inside
    ``backward()``. The thread that did most of it is told as if the script's thread had done it. ``main`` and
    ``others`` are roots of the event tree; gives the guests by the waiting node's id, and the roots that are left.
    """
    work = {}
    for root in others:
        if root.name.startswith(BACKWARD_PREFIX):
            work[root.start_tid] = work.get(root.start_tid, 0) + root.end_time_ns - root.start_time_ns
    if not work:
        return {}, others
    busiest = max(work, key=work.get)
    hosts = _waiting(main)
    guests, left = {}, []
    for root in others:
        host = next((node for node in hosts if root.start_tid == busiest and _has_room(node, root)), None)
        if host is None:
            left.append(root)
        else:
            guests.setdefault(host.id, []).append(root)
    return guests, left


def _waiting(roots):
    """The calls into autograd's engine, outermost."""
    found, waiting = [], list(roots)
    while waiting:
        node = waiting.pop()
        if "run_backward" in node.name and type(node.extra_fields).__name__ == "_ExtraFields_PyCCall":
            found.append(node)
        else:
            waiting.extend(node.children)
    return found


def _has_room(host, guest):
    inside = host.start_time_ns <= guest.start_time_ns and guest.end_time_ns <= host.end_time_ns
    return inside and not any(
        guest.start_time_ns < child.end_time_ns and child.start_time_ns < guest.end_time_ns
        for child in host.children
    )
