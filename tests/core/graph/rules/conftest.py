"""Small traces written by hand and read as any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skyline.trace.kineto.reader import read


class Events:
    """Events as the profiler writes them; times in µs, host threads and streams by number."""

    @staticmethod
    def event(category: str, name: str, start: float, duration: float, thread: int = 1, **args: Any) -> Any:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": thread,
            "ts": start,
            "dur": duration,
            "args": {key.replace("_", " "): value for key, value in args.items()},
        }

    @classmethod
    def op(cls, name: str, start: float, duration: float, thread: int = 1, **args: Any) -> Any:
        return cls.event("cpu_op", name, start, duration, thread, **args)

    @classmethod
    def note(cls, name: str, start: float, duration: float, thread: int = 1) -> Any:
        return cls.event("user_annotation", name, start, duration, thread)

    @classmethod
    def call(cls, name: str, start: float, duration: float, correlation: int, thread: int = 1) -> Any:
        return cls.event("cuda_runtime", name, start, duration, thread, correlation=correlation)

    @classmethod
    def launch(cls, start: float, duration: float, correlation: int, thread: int = 1) -> Any:
        return cls.call("cudaLaunchKernel", start, duration, correlation, thread)

    @classmethod
    def kernel(cls, start: float, duration: float, correlation: int, stream: int = 7, name: str = "k") -> Any:
        made = cls.event("kernel", name, start, duration, stream)
        return made | {"pid": 0, "args": {"stream": stream, "device": 0, "correlation": correlation}}

    @classmethod
    def copy(
        cls, name: str, start: float, duration: float, correlation: int, size: int = 0, stream: int = 7
    ) -> Any:
        made = cls.event("gpu_memcpy", f"Memcpy {name}", start, duration, stream)
        where = {"stream": stream, "device": 0, "correlation": correlation, "bytes": size}
        return made | {"pid": 0, "args": where}


@pytest.fixture
def events():
    return Events


@pytest.fixture
def traced(tmp_path):
    """Events to a trace, by way of a file."""

    def made(*written):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(written)}), encoding="utf-8")
        return read(path)

    return made
