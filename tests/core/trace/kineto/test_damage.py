"""Files that break off, are damaged, or are no trace: what could be read is used and said, or a clear refusal."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.errors import UsageError
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read

ReadText = Callable[[str | bytes], ProfilerTrace]
Make = Callable[..., dict[str, Any]]
COUNT = 400


@pytest.fixture
def whole(make_op: Make) -> bytes:
    events = [make_op(f"operator number {number}", 10 * number, 5) for number in range(COUNT)]
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, indent=1).encode()


def said(trace: ProfilerTrace) -> str:
    return "; ".join(str(note) for note in trace.notes)


def test_plain_and_gzip_by_content(read_text: ReadText, whole: bytes) -> None:
    assert len(read_text(whole)) == COUNT
    assert len(read_text(gzip.compress(whole))) == COUNT
    assert len(read_text(gzip.compress(whole[:9000]) + gzip.compress(whole[9000:]))) == COUNT


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9])
def test_json_that_breaks_off(read_text: ReadText, whole: bytes, kept: float) -> None:
    trace = read_text(whole[: int(len(whole) * kept)])
    assert len(trace) == pytest.approx(COUNT * kept, abs=8)
    assert "The file ends" in said(trace)


def test_json_that_breaks_off_between_events(read_text: ReadText, whole: bytes) -> None:
    trace = read_text(whole[: whole.index(b"operator number 9")].rstrip(b' \n"name:,{phXcatpu_o'))
    assert len(trace) >= 8
    assert "The file ends" in said(trace)


def test_events_none_of_which_ends(read_text: ReadText, whole: bytes) -> None:
    trace = read_text(whole.replace(b"\n  },", b"\n  ,"))
    assert len(trace) == 1
    assert sum(note.count for note in trace.notes) == COUNT - 1


def test_a_missing_last_brace(read_text: ReadText, whole: bytes) -> None:
    trace = read_text(whole[: whole.rindex(b"}")])
    assert len(trace) == COUNT
    assert said(trace) == "The file ends before its outermost brace closes"


@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_gzip_that_breaks_off(read_text: ReadText, whole: bytes, kept: float) -> None:
    packed = gzip.compress(whole)
    trace = read_text(packed[: int(len(packed) * kept)])
    assert 0 < len(trace) < COUNT
    assert "The compressed file is cut off" in said(trace)


def test_gzip_with_damage(read_text: ReadText, whole: bytes) -> None:
    packed = bytearray(gzip.compress(whole, compresslevel=0))
    packed[-6] ^= 255  # the checksum, which follows all of the text
    trace = read_text(bytes(packed))
    assert "The compressed file is damaged" in said(trace)


@pytest.mark.parametrize("damage", [b'"', b"{", b"[", b"}", b"]}", b'\\"', b"\x00", b"\xff\xfe"])
def test_damage_in_the_middle_costs_few_events(read_text: ReadText, whole: bytes, damage: bytes) -> None:
    middle = whole.index(b"operator number 200")
    trace = read_text(whole[:middle] + damage + whole[middle:])
    assert len(trace) >= COUNT - 4


def test_a_piece_missing_from_the_middle(read_text: ReadText, whole: bytes) -> None:
    start = whole.index(b"operator number 200")
    trace = read_text(whole[:start] + whole[start + 1000 :])
    assert COUNT - 10 <= len(trace) < COUNT


@pytest.mark.parametrize(
    "head", [b'"schemaVersion": {{"', b'"schemaVersion": "1', b'"schema": ["a, 1]', b"schema: 1"]
)
def test_a_damaged_head(read_text: ReadText, whole: bytes, head: bytes) -> None:
    trace = read_text(whole.replace(b'"schemaVersion": 1', head))
    assert len(trace) == COUNT
    assert "The part before or after the events is damaged" in said(trace)


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "is empty", "Export"),
        (b"PK\x03\x04....", "zip archive", "Unpack"),
        (b"\x28\xb5\x2f\xfd....", "zstd", "zstd -d"),
        (b"\x80\x04\x95....", "a pickle", "memory snapshot"),
        (b"SQLite format 3\x00", "SQLite", "torch.profiler"),
        (b"\x7fELF\x02\x01\x01\x00", "not text", "export_chrome_trace"),
        (b"<html></html>", "not JSON", "export_chrome_trace"),
        (b"import torch\n", "not JSON", "export_chrome_trace"),
        (b'"text"', "not JSON", "export_chrome_trace"),
        (b"{}", "no traceEvents", "export_chrome_trace"),
        (b'{"cells": [], "metadata": {}}', "no traceEvents", "export_chrome_trace"),
        (b'{"traceEvents": 5}', "no traceEvents", "export_chrome_trace"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "execution trace", "profiler trace of the same run"),
        (b'{"schema": "skyline.profile/9", "script": ""}', "it is a profile", "skyline.graph.load"),
        (b"[]", "no event with a time", "schedule"),
        (b"[1, 2, 3]", "no event with a time", "schedule"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "no event with a time", "schedule"),
    ],
)  # fmt: skip
def test_what_is_refused(read_text: ReadText, content: bytes, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_text(content)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "nowhere.json")
    with pytest.raises(UsageError, match="one process"):
        read(tmp_path)
