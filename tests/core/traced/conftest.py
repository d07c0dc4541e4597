"""The project's own small recordings, and changes of the one that was written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyline.trace.kineto.reader import read
from skyline.whatif.recorded import recorded

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def gpu():
    """Five steps of 1 ms; see ``tests/data/make_traces.py``."""
    return recorded(read(DATA / "tiny_gpu.trace.json"))


@pytest.fixture(scope="session")
def cpu():
    """Steps of a small model, recorded without a GPU."""
    return recorded(read(DATA / "tiny_cpu.trace.json.gz"))


@pytest.fixture
def changed(tmp_path):
    """The recording by hand with its events changed, left out where they become None, and others added."""

    def made(change, events=(), **further):
        written = json.loads((DATA / "tiny_gpu.trace.json").read_text(encoding="utf-8"))
        kept = [one for one in map(change, written["traceEvents"]) if one is not None] + [*events]
        path = tmp_path / "changed.json"
        path.write_text(json.dumps({**written, **further, "traceEvents": kept}), encoding="utf-8")
        return recorded(read(path))

    return made


class _Events:
    def __init__(self):
        self.all = []

    def add(self, name, category, start, end, place=1, **given):
        self.all.append({"ph": "X", "cat": category, "name": name, "pid": place, "tid": place, "ts": start,
                         "dur": end - start, "args": given})  # fmt: skip


@pytest.fixture
def two_ranks(tmp_path):
    """Two ranks that reduce gradients on a stream of their own, and wait for the device and for values in each step."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        events = _Events()
        add = events.add
        for step in range(4):
            begin, number = 10_000.0 * step, 100 * step
            compute = 3000.0 if rank == 0 else 5000.0
            add(f"ProfilerStep#{step}", "user_annotation", begin, begin + 9_990)
            add("aten::mm", "cpu_op", begin + 5, begin + 60)
            add("cudaLaunchKernel", "cuda_runtime", begin + 10, begin + 20, correlation=number + 1)
            add("sgemm", "kernel", begin + 20, begin + compute, 7, stream=7, correlation=number + 1)
            add("c10d::allreduce_", "cpu_op", begin + 70, begin + 140)
            add("cudaEventRecord", "cuda_runtime", begin + 75, begin + 80, correlation=number + 2)
            add("cudaStreamWaitEvent", "cuda_runtime", begin + 82, begin + 88, correlation=number + 3)
            add("cudaLaunchKernel", "cuda_runtime", begin + 90, begin + 100, correlation=number + 4)
            add("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "kernel", begin + compute + 1, begin + 8000, 7,
                stream=20, correlation=number + 4)  # fmt: skip
            add("cudaStreamWaitEvent", "cuda_runtime", begin + 150, begin + 155, correlation=number + 5)
            add("aten::item", "cpu_op", begin + 160, begin + 8100)
            add("cudaMemcpyAsync", "cuda_runtime", begin + 165, begin + 175, correlation=number + 6)
            add("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", begin + 8001, begin + 8005, 7, stream=7,
                correlation=number + 6)  # fmt: skip
            add("cudaStreamSynchronize", "cuda_runtime", begin + 180, begin + 8080, correlation=number + 7)
            add("aten::add_", "cpu_op", begin + 8200, begin + 8300)
            add("cudaLaunchKernel", "cuda_runtime", begin + 8210, begin + 8220, correlation=number + 8)
            add("add", "kernel", begin + 8230, begin + 9000, 7, stream=7, correlation=number + 8)
            add("cudaDeviceSynchronize", "cuda_runtime", begin + 8400, begin + 9010, correlation=number + 9)
        content = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank, "world_size": 2},
            "traceEvents": events.all,
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder
