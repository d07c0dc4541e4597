"""Traces that are made to use up time or memory: refused, or what is sound in them is read."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.trace.kineto.reader import read

HEAD = b'{"schemaVersion":1,"traceEvents":['
EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
MB = 1 << 20


def peak_mb(path: Path) -> tuple[str, float]:
    """The outcome of reading a file, and the peak of its memory, in MB."""
    tracemalloc.start()
    try:
        outcome = f"{len(read(path))} events"
    except UsageError as error:
        outcome = error.message
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return outcome, peak / MB


@pytest.mark.parametrize("filling", [b" ", b"\0", b"["])
def test_what_unpacks_to_very_much_is_refused(tmp_path: Path, filling: bytes) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(HEAD)
        for _ in range(200):
            file.write(filling * MB)
    outcome, memory_mb = peak_mb(path)
    assert "unpacks to more than 100 times its size, unlike any profiler trace" in outcome
    assert memory_mb < 100


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"schemaVersion":1,"deviceProperties":' + b"[" * 100_000 + b"]" * 100_000 + b',"traceEvents":[]}',
        HEAD + b'{"ph":' * 100_000,
        HEAD + b"}" * 1_000_000,
    ],
)
def test_brackets_within_brackets(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "deep.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=r"no event with a time|no traceEvents"):
        read(path)


def test_an_event_with_brackets_within_brackets_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    deep = (
        b'{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"args":{"x":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}"
    )
    path.write_bytes(HEAD + EVENT + b"," + deep + b"," + EVENT + b"]}")
    assert len(read(path)) == 2


@pytest.mark.parametrize(("filling", "size_mb"), [(b"a", 40), (b"\\", 4), (b" ", 40)])
def test_a_line_without_end(tmp_path: Path, filling: bytes, size_mb: int) -> None:
    path = tmp_path / "line.json"
    path.write_bytes(HEAD + EVENT + b',{"ph":"X","name":"' + filling * (size_mb * MB + 1))
    outcome, memory_mb = peak_mb(path)
    assert outcome == "1 events"
    assert memory_mb < 150
