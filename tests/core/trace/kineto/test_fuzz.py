"""Whatever is done to a real trace: it is read, with remarks, or refused; nothing else happens."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyline.errors import UsageError
from skyline.trace.kineto.reader import read

VALUES = st.sampled_from(
    [
        "null",
        "true",
        '"x"',
        '"12"',
        "[]",
        "{}",
        "[1, 2]",
        "1e400",
        "-5",
        "0",
        "NaN",
        "99999999999999999999999",
        "",
    ]
)
INSERTED = st.sampled_from(
    [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\x00", b"\xff", b"[[[[", b"\n\n"]
)


@pytest.fixture(scope="module")
def small(shared_data: Path) -> bytes:
    """The head of a real trace and some events of every category of it."""
    root = json.loads(gzip.decompress((shared_data / "traces" / "hta_gp100_mlp_train.json.gz").read_bytes()))
    seen: dict[tuple[str, str], int] = {}
    kept = []
    for event in root["traceEvents"]:
        kind = (event["ph"], event.get("cat", ""))
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 8:
            kept.append(event)
    return json.dumps({**root, "traceEvents": kept}, indent=1).encode()


def outcome(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(content)
        try:
            trace = read(path)
        except UsageError:
            return
    assert len(trace) == len(trace.duration_us) == len(trace.name) > 0
    assert all(str(note) for note in trace.notes)


careful = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@careful
@given(data=st.data())
def test_damaged_text(small: bytes, data: st.DataObject) -> None:
    content = bytearray(small)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                content[place] = data.draw(st.integers(0, 255))
            case 1:
                del content[place : place + data.draw(st.integers(1, 2000))]
            case 2:
                content[place:place] = data.draw(INSERTED)
            case _:
                del content[max(place, 2) :]
        if len(content) < 2:
            break
    outcome(bytes(content))


@careful
@given(data=st.data())
def test_damaged_gzip(small: bytes, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(small, mtime=0))
    place = data.draw(st.integers(2, len(packed) - 1))
    if data.draw(st.booleans()):
        packed[place] ^= data.draw(st.integers(1, 255))
    else:
        del packed[place:]
    outcome(bytes(packed))


@careful
@given(data=st.data())
def test_fields_missing_or_of_other_types(small: bytes, data: st.DataObject) -> None:
    root = json.loads(small)
    # Marked values are replaced in the text, since not all of them can be written as JSON.
    replaced: list[str] = []
    for event in data.draw(st.lists(st.sampled_from(root["traceEvents"]), min_size=1, max_size=8)):
        for fields in (event, event.get("args")):
            if isinstance(fields, dict) and fields:
                key = data.draw(st.sampled_from(sorted(fields)))
                if data.draw(st.booleans()):
                    del fields[key]
                else:
                    fields[key] = f"<{len(replaced)}>"
                    replaced.append(data.draw(VALUES))
    text = json.dumps(root)
    for number, value in enumerate(replaced):
        text = text.replace(f'"<{number}>"', value)
    outcome(text.encode())
