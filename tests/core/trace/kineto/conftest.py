"""Traces written by hand for one test each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read

Event = dict[str, Any]


def op(name: str, start: float, duration: float, **arguments: Any) -> Event:
    """An operator on a host thread, as recent profilers write it."""
    return {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration,
        "args": {name.replace("_", " "): value for name, value in arguments.items()},
    }  # fmt: skip


def kernel(name: str, start: float, duration: float, correlation: int = 7, stream: int = 7) -> Event:
    """A kernel on device 0, as recent profilers write it."""
    arguments = {"device": 0, "context": 1, "stream": stream, "correlation": correlation, "External id": 3}
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
        "args": arguments,
    }  # fmt: skip


@pytest.fixture
def make_op() -> Callable[..., Event]:
    return op


@pytest.fixture
def make_kernel() -> Callable[..., Event]:
    return kernel


@pytest.fixture
def read_text(tmp_path: Path) -> Callable[[str | bytes], ProfilerTrace]:
    """Reads a trace given as the file's content."""

    def read_it(content: str | bytes) -> ProfilerTrace:
        path = tmp_path / "trace.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(path)

    return read_it


@pytest.fixture
def read_events(read_text: Callable[[str], ProfilerTrace]) -> Callable[..., ProfilerTrace]:
    """Reads a trace given as its events and what stands around them."""

    def read_it(*events: Event, **around: Any) -> ProfilerTrace:
        return read_text(json.dumps({"schemaVersion": 1, **around, "traceEvents": list(events)}))

    return read_it
