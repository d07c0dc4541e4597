"""Graphs that the script captures: what goes into one does not happen then, but each time that it is replayed."""

from __future__ import annotations

import functools
import sys

from .backend import backend_of, kinds

_KEPT = "_skyline_captured"


class Captures:
    """Stands in the methods of the classes of graphs. ``note`` keeps what a capture holds for ``on_replay``.

    That is called after each replay with what was noted, in order, and the frame that replayed.
    """

    def __init__(self, on_replay):
        self._on_replay = on_replay
        self._backends = []
        self._graph = None

    def install(self):
        """Put the hooks in place; the script captures afterwards."""
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
        """True if launches of the script are only captured."""
        if self._graph is not None:
            return True
        return any(backend.is_used() and backend.is_capturing() for backend in self._backends)

    def note(self, what):
        """The capture under way holds this."""
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
