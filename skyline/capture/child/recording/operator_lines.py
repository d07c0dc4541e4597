"""Finds the lines of operators written as symbols, which make no call that the profiler would see."""

from __future__ import annotations

import difflib

from .node import OPERATOR
from .tree_nodes import start_ns, text_of

_MOST_VARIANTS = 8
_LONGEST_COMPARED = 2_000
_MARKER = "__torch_function__"


class OperatorLines:
    """Lines of operators, learned from a recording with the line marker, for recordings without it.

    A function runs its operators in the same order each time it takes the same path through its code. For each
    function, the seen orders are stored with the line of each operator. A function that stays on the stack for
    several iterations is cut at their boundaries.
    """

    def __init__(self):
        self._variants = {}
        self._lines = {}

    def learn_call(self, frame, marked, iteration_of):
        """Learn from a call of ``frame``; ``marked`` are ``(line, call of the marker)`` below it, in order."""
        self.learn(
            (frame.file_name, text_of(frame, "function_name")),
            [
                (iteration_of(operator), operator.name, line)
                for line, mark in marked
                for operator in outermost_operators(mark)
            ],
        )

    def tell_call(self, frame, children, iteration_of, places):
        """Line numbers in ``places`` for the operators among the children of a call of ``frame``.

        The keys are indices among the children; operators without a known line are left out.
        """
        seen = [
            (iteration_of(child), child.name, index)
            for index, child in enumerate(children)
            if child.kind == OPERATOR
        ]
        path, function = places.user_path(frame.file_name), text_of(frame, "function_name")
        told = self.tell((frame.file_name, function), seen)
        return {index: places.numbered(path, line, function) for index, line in told.items()}

    def learn(self, function, seen):
        """Learn from a call of ``function``; ``seen`` are its ``(iteration, operator, line)``, in order."""
        for names, lines in _cut(seen):
            variants = self._variants.setdefault(function, {})
            variants.pop(names, None)
            variants[names] = lines
            if len(variants) > _MOST_VARIANTS:
                del variants[next(iter(variants))]
            for index, name in enumerate(names):
                self._lines.setdefault((function, name), set()).add(lines[index])

    def tell(self, function, seen):
        """``{key: line}`` for the ``(iteration, operator, key)`` of a call in order, without unknown lines."""
        told = {}
        for names, keys in _cut(seen):
            lines = self._variants.get(function, {}).get(names)
            if lines is None:
                lines = self._nearest(function, names)
            told.update((key, lines[index]) for index, key in enumerate(keys) if lines[index] is not None)
        return told

    def _nearest(self, function, names):
        """Lines for an order that was not seen, as far as it resembles a seen order."""
        lines = [self._only_line(function, name) for name in names]
        variants = self._variants.get(function, {})
        if len(names) > _LONGEST_COMPARED or not variants:
            return lines
        matchers = [
            (difflib.SequenceMatcher(None, names, known, autojunk=False), known_lines)
            for known, known_lines in variants.items()
            if len(known) <= _LONGEST_COMPARED
        ]
        if matchers:
            matcher, known_lines = max(matchers, key=lambda pair: pair[0].quick_ratio())
            for here, there, size in matcher.get_matching_blocks():
                lines[here : here + size] = known_lines[there : there + size]
        return lines

    def _only_line(self, function, name):
        lines = self._lines.get((function, name), ())
        return next(iter(lines)) if len(lines) == 1 else None


def is_mark(fields):
    """True if a Python call is from the line marker."""
    callsite = fields.callsite
    return text_of(callsite, "function_name") == _MARKER and callsite.file_name.endswith("line_marker.py")


def outermost_operators(node):
    """The outermost operators below a node, in order."""
    found, waiting = [], [node]
    while waiting:
        here = waiting.pop()
        if here.kind == OPERATOR:
            found.append(here)
        else:
            waiting.extend(here.children)
    return sorted(found, key=start_ns)


def _cut(seen):
    """Names and values of each iteration's stretch of ``(iteration, name, value)``."""
    stretches = {}
    for iteration, name, value in seen:
        names, values = stretches.setdefault(iteration, ([], []))
        names.append(name)
        values.append(value)
    return [(tuple(names), values) for names, values in stretches.values()]
