"""Loading a file as a graph."""

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
"""A saved profile starts with its schema."""


def load(path: Path | str) -> Graph:
    """The graph of a PyTorch profiler trace, or of the iterations in a saved Skyline profile, with recorded times.

    ``skyline.trace.kineto.reader.read`` reports how a trace was read, ``skyline.graph.from_kineto.built`` how it
    relates to the graph.

    Raises:
        UsageError: the file is neither a trace nor a profile, or holds nothing usable.
    """
    path = Path(path)
    return build(store.load(path).trace) if _is_profile(path) else graph_of(read(path))


def _is_profile(path: Path) -> bool:
    """True if the file starts like a profile. An unreadable file goes to the trace reader, which gives the reason."""
    try:
        return _MARK in head_unpacked(path, _PEEKED_BYTES)
    except OSError:
        return False
