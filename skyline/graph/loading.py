"""From a file to a graph."""

from __future__ import annotations

from pathlib import Path

from skyline.bounded_read import head_unpacked
from skyline.graph.build import build
from skyline.graph.from_kineto import graph_of
from skyline.graph.graph import Graph
from skyline.trace import store
from skyline.trace.kineto.reader import read

_PEEKED_BYTES = 512
_MARK = b'"schema":"skyline.'
"""A saved profile says what it is in its first words."""


def load(path: Path | str) -> Graph:
    """The graph of a PyTorch profiler trace, or of the iterations recorded in a profile that Skyline saved.

    Times are those of the recording. What was done to a trace to read it, and how it relates to the graph, is told
    by ``skyline.trace.kineto.reader.read`` and ``skyline.graph.from_kineto.built``.

    Raises:
        UsageError: the file is neither, or nothing in it can be used.
    """
    path = Path(path)
    return build(store.load(path).trace) if _is_profile(path) else graph_of(read(path))


def _is_profile(path: Path) -> bool:
    """Whether it begins as one; what cannot be read is left to the reader of traces, which says why."""
    try:
        return _MARK in head_unpacked(path, _PEEKED_BYTES)
    except OSError:
        return False
