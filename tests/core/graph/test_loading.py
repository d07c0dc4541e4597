from __future__ import annotations

import gzip
import json

import pytest

import skyline.graph
from skyline.errors import UsageError
from skyline.graph import Phase, load, select
from skyline.trace.store import save


def test_a_saved_profile_becomes_its_graph(profile, tmp_path):
    graph = load(save(profile, tmp_path))
    assert graph.iterations == (0, 1, 2)
    assert graph.durations.sum() + graph.gaps.sum() == pytest.approx(36_000)
    forward = select(graph, line="train.py:5", layer="Linear", phase=Phase.FORWARD)
    assert (graph.durations + graph.gaps)[forward].sum() == pytest.approx(9000)


@pytest.mark.parametrize("packed", [True, False])
def test_a_profiler_trace_becomes_its_graph(tmp_path, packed):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 100, "dur": 50, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 160, "dur": 20, "pid": 1, "tid": 1},
    ]
    path = tmp_path / "trace.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    graph = load(path)
    assert graph.durations.sum() + graph.gaps.sum() == pytest.approx(80)
    assert graph.durations[select(graph, name="aten::mm")].sum() == pytest.approx(50)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08broken", b'{"schema":"skyline.capture/0"}'])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "something.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        load(path)
    with pytest.raises(UsageError):
        load(tmp_path / "nothing.json")


def test_every_public_name_is_there():
    for name in skyline.graph.__all__:
        assert getattr(skyline.graph, name).__name__ == name
    assert dir(skyline.graph) == sorted(skyline.graph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = skyline.graph.magic
