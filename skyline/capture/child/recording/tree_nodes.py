"""Properties of single nodes of the profiler's event tree."""

from __future__ import annotations

import functools

from .node import CALL, SPAN

_CLOCKS = ("perf_counter", "monotonic", "function time>", "thread_time", "process_time")
"""Functions that read a clock. A loop that waits for a time takes no longer if recording slows down its calls."""


def text_of(thing, attribute):
    """A text attribute of a node or frame; empty if its source is gone, as with code that ran only once."""
    try:
        return getattr(thing, attribute)
    except UnicodeDecodeError:
        return ""


def is_closure(fields):
    """True if an optimizer calls user code: the work inside is not the optimizer's.

    Skyline's marker, which every function of PyTorch calls first, is no user code.
    """
    caller, callee = (place.file_name.replace("\\", "/") for place in (fields.caller, fields.callsite))
    of_optimizer = "torch/optim/" in caller and not caller.endswith("/optimizer.py")
    return of_optimizer and "torch/" not in callee and not callee.endswith("/recording/line_marker.py")


def reads_clock(node):
    """True if a call reads a clock."""
    return _is_of_a_clock(text_of(node, "name"))


@functools.lru_cache(maxsize=4096)
def _is_of_a_clock(name):
    return any(clock in name for clock in _CLOCKS)


def start_ns(node):
    """The start of a node, as a sort key."""
    return node.start_time_ns


def spans_named(nodes, name):
    """All spans with this name at any depth, found without recursion."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.kind == SPAN and text_of(node, "name") == name:
            yield node
        waiting.extend(node.children)


def has_python_call(node, is_wanted):
    """True if a Python function from a file that ``is_wanted`` runs below a node."""
    waiting = list(node.children)
    while waiting:
        child = waiting.pop()
        if child.kind == CALL and is_wanted(child.extra_fields.callsite.file_name):
            return True
        waiting.extend(child.children)
    return False
