"""Files made to use up memory: each is read in a process of its own, and takes less than 1 GB of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel says how much memory was used")

RECORDED = Path(__file__).parents[2] / "data" / "linear.profile.json.gz"
DOCUMENT: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
MODULE: dict[str, Any] = {
    **{"path": "Net", "class_name": "Net", "library": False},
    **{"parameter_count": 1, "trainable": True},
}
MB = 1 << 20
MOST_MB = 1000
READ = """
import re, sys
from pathlib import Path
from skyline.errors import UsageError
from skyline.trace import store
from skyline.trace.kineto.reader import read
try:
    {"profile": store.load, "trace": read}[sys.argv[1]](Path(sys.argv[2]))
    print("read")
except UsageError as error:
    print(error.message)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def outcome(kind: str, path: Path) -> tuple[str, int]:
    """The outcome of reading a file, and the peak of its memory, in MB."""
    ran = subprocess.run(
        [sys.executable, "-c", READ, kind, str(path)], capture_output=True, text=True, check=True
    )
    said, memory = ran.stdout.splitlines()
    return said, int(memory)


Rows = bytes | Callable[[], Iterable[bytes]]
"""One row, or what makes the pieces of all: as much as no worker is to keep from its collection on."""


def with_rows(place: Callable[[dict[str, Any], str], None], rows: Rows, count: int) -> Any:
    """The pieces of a profile in which ``rows`` stand at a place, a single row that many times."""
    document = json.loads(json.dumps(DOCUMENT))
    place(document, "HERE")
    before, after = json.dumps(document).encode().split(b'"HERE"')
    yield before
    if isinstance(rows, bytes):
        yield b"[" + rows
        for _ in range(count // 1000):
            yield (b"," + rows) * 1000
        yield b"]"
    else:
        yield from rows()
    yield after


def options(count: int) -> Iterator[bytes]:
    """An object of very many keys, no two alike."""
    yield b'{"":0'
    for first in range(0, count, 1000):
        yield b"".join(b',"%x":0.5' % number for number in range(first, first + 1000))
    yield b"}"


def at_notes(document: dict[str, Any], value: str) -> None:
    document["notes"] = value


def at_allocations(document: dict[str, Any], value: str) -> None:
    document["trace"]["allocations"] = value


def at_options(document: dict[str, Any], value: str) -> None:
    document["modules"] = [{**MODULE, "options": value}]


ALLOCATION = b'{"time_us":1.5,"size_bytes":2048,"address":94169056743232,"phase":"data","line":1}'
TOO_MANY = "it holds more values than a profile of its size"
PROFILES: dict[str, tuple[Callable[[dict[str, Any], str], None], Rows, int, str]] = {
    "remarks without end": (at_notes, b'""', 26_000_000, TOO_MANY),
    "allocations without end": (at_allocations, ALLOCATION, 900_000, TOO_MANY),
    "as many keys as are read": (at_options, lambda: options(4_500_000), 0, "read"),
    "a remark that is longer than any": (
        at_notes,
        lambda: (b'["' + b"x" * (200 * MB) + b'"]',),
        0,
        "larger than 80 MB",
    ),
    "a text of wide characters": (
        at_notes,
        lambda: (b'["' + "\U0001f600".encode() * (18 * MB) + b'"]',),
        0,
        "too long",
    ),
    "brackets within brackets": (at_notes, b"[" * 100_000 + b"]" * 100_000, 0, "damaged"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_profiles(tmp_path: Path, name: str) -> None:
    place, rows, count, words = PROFILES[name]
    path = tmp_path / "large.profile.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for piece in with_rows(place, rows, count):
            file.write(piece)
    said, memory_mb = outcome("profile", path)
    assert words in said
    assert memory_mb < MOST_MB


EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'


def events(count: int) -> Iterator[bytes]:
    """Events whose names pack badly enough for the file to pass for a trace: 2 bytes each."""
    names = Random(0)
    # More than the 32 KB in which gzip looks for the same text again.
    block = b"".join(b"," + EVENT.replace(b'"a"', b'"%x"' % names.randrange(16)) for _ in range(1000))
    for _ in range(0, count, 1000):
        yield block


TRACES: dict[str, tuple[Callable[[], Iterable[bytes]], str, str]] = {
    "events without end": (lambda: events(2_100_000), "more than 2,000,000 events", "read"),
    "a line of 200 MB": (
        lambda: (b',{"ph":"X","name":"' + b"a" * (200 * MB),),
        "unpacks to more than 100 times its size",
        "read",
    ),
    "brackets within brackets": (
        lambda: (b',{"args":' + b"[" * 100_000 + b"]" * 100_000 + b"}",),
        "read",
        "read",
    ),
}


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        pytest.param(name, packed, id=f"{name}-{'packed' if packed else 'plain'}", marks=marks)
        for name in TRACES
        for packed in (True, False)
        # Two million events are read until the packed file is refused, and again from the plain one.
        for marks in [pytest.mark.long if name == "events without end" and not packed else ()]
    ],
)
def test_traces(tmp_path: Path, name: str, packed: bool) -> None:
    """A packed one is refused; of a plain one, whose size anyone sees, what is whole is read."""
    rows, said_packed, said_plain = TRACES[name]
    path = tmp_path / "large.json"
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        file.write(b'{"schemaVersion":1,"traceEvents":[' + EVENT)
        for row in rows():
            file.write(row)
        file.write(b"]}")
    said, memory_mb = outcome("trace", path)
    assert (said_packed if packed else said_plain) in said
    assert memory_mb < MOST_MB
