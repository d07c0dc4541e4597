"""Graphs that the script captures: captured work does not run at the capture, but at each replay."""

from __future__ import annotations

import functools
import sys

from .backend import backend_of, kinds

_KEPT = "_skyline_captured"


class Captures:
    """Replaces the methods of graph classes. ``note`` stores the work in a capture for ``on_replay``.

    ``on_replay`` is called after each replay with the noted work, in order, and the frame that replayed.
    """

    def __init__(self, on_replay):
        self._on_replay = on_replay
        self._backends = []
        self._graph = None

    def install(self):
        """Install the hooks; call it before the script captures graphs."""
        classes = []
        for backend in filter(None, map(backend_of, kinds())):
            graph_class = backend.graph_class()
            if graph_class is None:
                continue
            self._backends.append(backend)
            if graph_class not in classes:
                classes.append(graph_class)
        for graph_class in classes:
            graph_class.capture_begin = self._beginning(graph_class.capture_begin)
            graph_class.capture_end = self._ending(graph_class.capture_end)
            graph_class.replay = self._replaying(graph_class.replay)

    def under_way(self):
        """True during a capture, in which launches of the script do not run."""
        if self._graph is not None:
            return True
        return any(backend.is_used() and backend.is_capturing() for backend in self._backends)

    def note(self, what):
        """Add this work to the current capture."""
        if self._graph is not None:
            getattr(self._graph, _KEPT).append(what)

    def _beginning(self, capture_begin):
        @functools.wraps(capture_begin)
        def begin(graph, *args, **kwargs):
            result = capture_begin(graph, *args, **kwargs)
            setattr(graph, _KEPT, [])
            self._graph = graph
            return result

        return begin

    def _ending(self, capture_end):
        @functools.wraps(capture_end)
        def end(graph, *args, **kwargs):
            self._graph = None
            return capture_end(graph, *args, **kwargs)

        return end

    def _replaying(self, replay):
        @functools.wraps(replay)
        def replayed(graph, *args, **kwargs):
            result = replay(graph, *args, **kwargs)
            held = getattr(graph, _KEPT, ())
            if held and self._graph is None:
                self._on_replay(held, sys._getframe(1))
            return result

        return replayed
