"""PyTorch's execution traces, as it writes them today and as it wrote them first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.trace.kineto.execution_trace import data_dependencies, read_execution_trace, rows_in
from skyline.trace.kineto.reader import read

RECORDED = """
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
observer = ExecutionTraceObserver().register_callback("execution.json")
with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as profiler:
    model(torch.randn(8, 32)).sum().backward()
profiler.export_chrome_trace("trace.json")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="records a real pair of traces")
    folder = tmp_path_factory.mktemp("recorded")
    subprocess.run([sys.executable, "-c", RECORDED], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.capture
def test_a_real_pair_of_traces(recorded: Path) -> None:
    trace = read(recorded / "trace.json")
    execution = read_execution_trace(recorded / "execution.json")
    rows = rows_in(trace, execution)
    assert (rows >= 0).sum() >= len(execution) - 2  # the process and the thread have no span
    source, target = data_dependencies(trace, execution)
    assert (trace.end_us[source] <= trace.start_us[target]).all()
    pairs = [(trace.name_of(one), trace.name_of(other)) for one, other in zip(source, target, strict=True)]
    assert ("aten::randn", "aten::linear") in pairs
    assert ("aten::linear", "aten::relu") in pairs
    assert ("aten::relu", "aten::linear") in pairs
    assert ("aten::linear", "aten::sum") in pairs


@pytest.mark.capture
def test_traces_of_different_runs_are_refused(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"schema": "1.0.1", "nodes": [{"id": 1, "name": "elsewhere", "rf_id": 3}]}))
    with pytest.raises(UsageError, match="different runs"):
        data_dependencies(read(recorded / "trace.json"), read_execution_trace(path))


def test_the_first_schema_had_its_fields_on_the_node(tmp_path: Path) -> None:
    def node(
        number: int, name: str, parent: int, inputs: list[object], outputs: list[object]
    ) -> dict[str, object]:
        return {
            "id": number,
            "name": name,
            "parent": parent,
            "rf_id": number,
            "inputs": inputs,
            "outputs": outputs,
        }

    def tensor(storage: int) -> list[object]:
        return [storage + 100, storage, 0, 64, 4, "cuda:0"]

    nodes = [
        node(3, "inner", 2, [tensor(1)], [tensor(2)]),
        node(2, "make", 1, [tensor(1)], [tensor(2)]),
        node(4, "copy_", 1, [tensor(3), tensor(2), False], [tensor(3)]),
        node(5, "cat", 1, [[tensor(2), tensor(3)], 1], [tensor(4)]),
        node(1, "[thread]", 1, [], []),
    ]
    path = tmp_path / "execution.json"
    path.write_text(json.dumps({"schema": "1.0.1", "nodes": nodes}))
    found = read_execution_trace(path)
    assert found.name == ("[thread]", "make", "inner", "copy_", "cat")
    assert found.parent.tolist() == [-1, 0, 1, 0, 0]
    flows = {
        (found.name[one], found.name[other]) for one, other in zip(found.source, found.target, strict=True)
    }
    assert flows == {("make", "copy_"), ("make", "cat"), ("copy_", "cat")}


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"nothing", b'{"nodes": [{"name": 1}]}', b'{"nodes": [' + b"[" * 5000]
)
def test_what_is_no_execution_trace(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "execution.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no PyTorch execution trace"):
        read_execution_trace(path)
