"""Rebuilds the profiler's event tree by time, without events of devices."""

from __future__ import annotations

from .activities import Activities, is_call, is_kineto
from .node import ALLOCATION, SPAN, nodes_of
from .tree_nodes import text_of


def nested(roots, events):
    """The roots of a tree with events of host threads only, and the work of devices as ``Activity`` objects.

    If a device was recorded, the profiler's own tree is not usable: events of a device count as calls, and a call is
    placed below its operator even if Python calls are in between. ``events`` are those of the profiler's result.
    """
    nodes, calls, spans = _flat(roots)
    activities = Activities(events, calls, spans)
    threads = {}
    for node in nodes:
        node.children = []
        if not is_kineto(node):
            threads.setdefault(node.start_tid, ([], []))[0].append(node)
        elif is_call(node) and not activities.is_on_device(node):
            node.start_tid = activities.thread_of(node)
            threads.setdefault(node.start_tid, ([], []))[1].append(node)
    worked_for = {activity.correlation for activity in activities.work}
    found = []
    for own, called in threads.values():
        found += _tree(own, _outermost(called, worked_for))
    return found, activities.work


def _flat(roots):
    """All nodes, each after its parent; the nodes from Kineto; the names of spans opened by hand."""
    nodes, calls, spans = [], [], set()
    waiting = nodes_of(roots)[::-1]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(node.children[::-1])
        if is_kineto(node):
            calls.append(node)
        elif node.kind == SPAN:
            spans.add(text_of(node, "name"))
    return nodes, calls, spans


def _outermost(calls, worked_for):
    """The calls that are not within another one. If the inner (driver) call launched the work, its number is used."""
    calls.sort(key=lambda call: (call.start_time_ns, -call.end_time_ns))
    kept = []
    for call in calls:
        if not kept or call.end_time_ns > kept[-1].end_time_ns:
            kept.append(call)
        elif call.correlation_id in worked_for and kept[-1].correlation_id not in worked_for:
            kept[-1].correlation_id = call.correlation_id
    return kept


def _tree(nodes, calls):
    """The roots of a thread's nodes, nested by time.

    Runtime calls are timed by another clock, which may deviate by more than the gaps between calls and the ends of
    operators: the middle of a call decides its place, and protruding ends are cut off. Spans opened by hand may end
    after the enclosing node, and allocations have no duration: neither gets children.
    """
    order = [(node.start_time_ns, 0, -node.end_time_ns, place, node) for place, node in enumerate(nodes)]
    order += [
        ((call.start_time_ns + call.end_time_ns) // 2, 1, 0, place, call) for place, call in enumerate(calls)
    ]
    order.sort(key=lambda item: item[:4])
    roots, stack, latest = [], [], {}
    for at_ns, is_runtime, _, _, node in order:
        while stack and stack[-1].end_time_ns <= at_ns and not _is_at_end(node, stack[-1]):
            stack.pop()
        above = stack[-1] if stack else None
        if _is_leaf(node):
            (above.children if above else roots).append(node)
            continue
        before = latest.get(id(above))
        if is_runtime:
            _cut(node, above, before)
        else:
            if above is not None:
                node.end_time_ns = min(node.end_time_ns, above.end_time_ns)
            if before is not None and is_kineto(before) and before.end_time_ns > node.start_time_ns:
                before.end_time_ns = max(node.start_time_ns, before.start_time_ns + 1)
        (above.children if above else roots).append(node)
        latest[id(above)] = node
        if not is_runtime:
            stack.append(node)
    return roots


def _cut(call, above, before):
    """Cut off the parts of a call that are outside its parent or within the node before it."""
    start, end = call.start_time_ns, call.end_time_ns
    if above is not None:
        start, end = max(start, above.start_time_ns), min(end, above.end_time_ns)
    if before is not None:
        start = max(start, before.end_time_ns)
    call.start_time_ns, call.end_time_ns = start, max(end, start + 1)


def _is_at_end(node, above):
    """True if a node without duration is exactly at the end of another node, to which it then belongs."""
    return node.start_time_ns == node.end_time_ns == above.end_time_ns and _is_leaf(node)


def _is_leaf(node):
    return node.kind in (ALLOCATION, SPAN)
